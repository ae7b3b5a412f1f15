-- A provider turned a request away: nobody asks it with that key before the pause is over.
-- KEYS: account
-- ARGV: ms that the provider asks for, or '' when it does not say; when the request was admitted, in ms
-- Returns ms from now until the pause is over.
-- uses: queue
local FIRST, LONGEST, FORGOTTEN, DAY = 250, 8000, 60000, 86400000
local account, asked, admitted = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local now = clock()
local before = redis.call('HMGET', account, 'until', 'strikes')
local ends = tonumber(before[1] or 0)
redis.call('HINCRBY', account, 'limited', 1)
redis.call('PEXPIRE', account, DAY)
local pause = asked or 0
-- Many were under way when the first of them was turned away: they tell nothing new, and do not let
-- those go again who have had their turn after it.
if admitted >= ends then
  -- In a row, without a reply between them.
  local is_first = not before[2] or now - ends > FORGOTTEN
  local strikes = is_first and 0 or tonumber(before[2]) + 1
  redis.call('HSET', account, 'strikes', strikes, 'given', 0)
  -- A word of a second or more is believed; a shorter one is no reason to come back at once.
  if pause < 1000 then pause = math.max(pause, math.min(LONGEST, FIRST * 2 ^ strikes)) end
end
if pause > 0 then ends = math.max(ends, now + pause) end
redis.call('HSET', account, 'until', string.format('%d', ends))
return math.max(0, ends - now)
