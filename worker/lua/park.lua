-- Give the run up while all it does is wait: no claim, no job, no slot. Refused when something that it
-- waits for is answered, or somebody wants it stopped.
-- KEYS: record
-- ARGV: as `flush`, then `run.waiting` event, ms that the run has computed, n, awaited keys of calls and
--   hooks, n, what its session gets if it ends before anybody goes on with it
-- Returns {code, first seq or slot}.
-- uses: queue log flush
local record, now = KEYS[1], clock()
local code, about, at = flush(record, ARGV, now, 0, '')
-- A refusal whose reply was lost is told again.
if code == REPEATED and fenced(record, ARGV[1]) then return { GO_ON, 0 } end
if code ~= DONE then return { code, about } end
expire_live(record, now, FLUSHED)
local run = redis.call('HMGET', record, 'queue_key', 'job', 'cancel')
local awaited, past_awaited = take(ARGV, at + 2)
if run[3] or #awaited == 0 then return { GO_ON, 0 } end
for _, key in ipairs(awaited) do
  if redis.call('HEXISTS', record .. ':calls', key .. '|result') == 1
    or redis.call('HEXISTS', record .. ':hooks', key .. '|answer') == 1 then return { GO_ON, 0 } end
end
append(record, 1, ARGV[at], now)
redis.call('HSET', record, 'status', 'waiting', 'poison', 0, 'lapses', 0, 'ran', ARGV[at + 1])
redis.call('HINCRBY', record, 'epoch', 1)
redis.call('HDEL', record, 'owner', 'owner_channel')
local closing = ARGV[past_awaited] and take(ARGV, past_awaited) or {}
for _, message in ipairs(closing) do redis.call('RPUSH', record .. ':closing', message) end
expire_live(record, now, { ':closing' })
release(run[1], run[2])
return { code, about }
