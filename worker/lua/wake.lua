-- Wake a sleeping worker: whoever took the token has no room.
-- KEYS: queue
-- uses: queue
wake(KEYS[1])
return 1
