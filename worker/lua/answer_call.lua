-- Answer an open call by hand: a job that waits never starts, one that is at it is told to stop.
-- KEYS: record
-- ARGV: call key, result
-- Returns {code, state}: 1 answered, 0 it was answered before, -1 there is no such run, -2 no such call.
-- uses: queue log run
local record, now, key = KEYS[1], clock(), ARGV[1]
local calls = record .. ':calls'
local status = redis.call('HGET', record, 'status')
if not status then return { -1, '' } end
local call = redis.call('HMGET', calls, key .. '|state', key .. '|queue', key .. '|job', key .. '|channel')
if not call[1] then return { -2, '' } end
if TERMINAL[status] or (call[1] ~= 'queued' and call[1] ~= 'started') then return { 0, call[1] } end
redis.call('HSET', calls, key .. '|state', 'done', key .. '|result', ARGV[2])
if call[1] == 'queued' then
  release(call[2], call[3])
else
  redis.call('ZADD', 'arq:abort', string.format('%d', now), call[3])
  redis.call('PUBLISH', call[4], call[3] .. '\ncancel\n\n')
end
answer(record, now, 'call', key, ARGV[2])
expire_live(record, now, {})
return { 1, 'done' }
