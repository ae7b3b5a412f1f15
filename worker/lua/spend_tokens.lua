-- Count the tokens that a reply took: beside those that it was thought to take, while that second
-- counts; else all of them now, when they are told.
-- The provider replies again: its next refusal is the first one.
-- KEYS: window, account
-- ARGV: when its request was admitted, in ms; tokens that were thought; tokens that it took
-- Returns the tokens of the second that was changed.
-- uses: queue
local MINUTE, KEPT = 60, 120000
local second = math.floor(tonumber(ARGV[1]) / 1000)
local now = math.floor(clock() / 1000)
local more = tonumber(ARGV[3]) - tonumber(ARGV[2])
if second < now - MINUTE then second, more = now, tonumber(ARGV[3]) end
redis.call('HDEL', KEYS[2], 'strikes')
local count = redis.call('HINCRBY', KEYS[1], string.format('t%d', second), string.format('%d', more))
redis.call('PEXPIRE', KEYS[1], KEPT)
return count
