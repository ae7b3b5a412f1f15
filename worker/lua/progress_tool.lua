-- Append what a tool's author reports while it works.
-- KEYS: record
-- ARGV: queue key, job id, token, call key, count, events
-- Returns 1, or 0 when the call is no longer this claim's to report on.
-- uses: queue log
local record = KEYS[1]
if not holds(ARGV[1], ARGV[2], ARGV[3]) then return 0 end
local status = redis.call('HGET', record, 'status')
if not status or TERMINAL[status] then return 0 end
if redis.call('HGET', record .. ':calls', ARGV[4] .. '|state') ~= 'started' then return 0 end
local now = clock()
append(record, tonumber(ARGV[5]), ARGV[6], now)
expire_live(record, now)
return 1
