-- Count the tokens that a reply took beside those that it was thought to take.
-- KEYS: window
-- ARGV: when its request was admitted, in ms; tokens
-- Returns the tokens of that second.
local KEPT = 120000
local second = math.floor(tonumber(ARGV[1]) / 1000)
local count = redis.call('HINCRBY', KEYS[1], string.format('t%d', second), ARGV[2])
redis.call('PEXPIRE', KEYS[1], KEPT)
return count
