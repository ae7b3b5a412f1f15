-- A loop waits no longer for a call that no worker has begun: it never starts, and its answer is the
-- given one. A call that has begun in the meantime is waited for.
-- KEYS: record
-- ARGV: epoch, call key, result
-- Returns {code, result or false}: 0 the fence refused, 1 withdrawn or answered before, 3 it has begun.
-- uses: queue log flush
local record, key = KEYS[1], ARGV[2]
local calls = record .. ':calls'
if not fenced(record, ARGV[1]) then return { LEFT, false } end
local call = redis.call('HMGET', calls, key .. '|state', key .. '|result', key .. '|queue', key .. '|job')
if call[2] then return { DONE, call[2] } end
if call[1] ~= 'queued' then return { GO_ON, false } end
redis.call('HSET', calls, key .. '|state', 'cancelled', key .. '|result', ARGV[3])
release(call[3], call[4])
expire_live(record, clock(), {})
return { DONE, ARGV[3] }
