-- A tool job asks the outside: the hook is its run's, and the answer is told to the job.
-- KEYS: record
-- ARGV: queue key, job id, token, worker's channel, hook key, label, ms until it ends, what its events
--   tell, about (JSON), `hook.opened` event
-- Returns {code, answer or false}: 0 the call is not ours, or over; 1 asked, now or before.
-- uses: queue log run hooks
local record, now, hooks, key = KEYS[1], clock(), KEYS[1] .. ':hooks', ARGV[5]
local status = redis.call('HGET', record, 'status')
if not holds(ARGV[1], ARGV[2], ARGV[3]) or not status or TERMINAL[status] then return { 0, false } end
if redis.call('HEXISTS', hooks, key .. '|state') == 0 then
  open_hook(record, now, key, ARGV[6], ARGV[8], now + tonumber(ARGV[7]), ARGV[9])
  append(record, 1, ARGV[10], now)
  tell_above(record, now, ARGV[10])
end
redis.call('HSET', hooks, key .. '|channel', ARGV[4], key .. '|job', ARGV[2])
expire_live(record, now, { ':hooks' })
return { 1, redis.call('HGET', hooks, key .. '|answer') }
