-- A provider turned a request away: nobody asks it with that key before the pause is over.
-- KEYS: account
-- ARGV: ms that the provider asks for, or '' when it does not say; when the request was admitted, in ms
-- Returns ms from now until the pause is over.
-- uses: queue
local FIRST, LONGEST, FORGOTTEN, DAY = 1000, 8000, 60000, 86400000
local account, asked, admitted = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local now = clock()
local before = redis.call('HMGET', account, 'until', 'strikes')
local ends, strikes = tonumber(before[1] or 0), tonumber(before[2] or 0)
redis.call('HINCRBY', account, 'limited', 1)
redis.call('PEXPIRE', account, DAY)
-- Many were under way when the first of them was turned away: they tell nothing new.
local is_news = admitted >= ends
if is_news then strikes = now - ends > FORGOTTEN and 0 or strikes + 1 end
local pause = asked or math.min(LONGEST, FIRST * 2 ^ strikes)
if asked or is_news then ends = math.max(ends, now + pause) end
redis.call('HSET', account, 'until', string.format('%d', ends), 'strikes', strikes, 'given', 0)
return math.max(0, ends - now)
