-- Append what a tool's author reports while it works.
-- KEYS: record
-- ARGV: queue key, job id, token, call key, number of the entry in this claim, count, events
-- Returns 1, or 0 when the call is no longer this claim's to report on.
-- uses: queue log
local record, key = KEYS[1], ARGV[4]
local calls = record .. ':calls'
if not holds(ARGV[1], ARGV[2], ARGV[3]) then return 0 end
local status = redis.call('HGET', record, 'status')
if not status or TERMINAL[status] then return 0 end
if redis.call('HGET', calls, key .. '|state') ~= 'started' then return 0 end
-- An entry whose reply was lost is sent again, and is not appended twice.
local entry = ARGV[3] .. ' ' .. ARGV[5]
if redis.call('HGET', calls, key .. '|told') == entry then return 1 end
local now = clock()
redis.call('HSET', calls, key .. '|told', entry)
append(record, tonumber(ARGV[6]), ARGV[7], now)
expire_live(record, now, {})
return 1
