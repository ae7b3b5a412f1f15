-- Start a call once: write its turn up to and with its block into the journal, and enqueue its job.
-- From here on the turn is never asked again.
-- KEYS: record
-- ARGV: as `flush`, then call key, turn key or '', part of the turn, its length in events, queue key,
--   job id, payload, call (JSON), 1 when it may run again after a crash else 0, `tool.queued` event,
--   queue name, queues set
-- Returns {code, first seq or slot, state, result or false}.
-- uses: queue log flush
local record, now = KEYS[1], clock()
local calls, last = record .. ':calls', #ARGV
local key = ARGV[last - 11]
local state = redis.call('HGET', calls, key .. '|state')
local code, about = flush(record, ARGV, now, state and 0 or 1, state and '' or ARGV[last - 2])
if code ~= DONE and code ~= REPEATED then return { code, about, '', false } end
if code == REPEATED and not fenced(record, ARGV[1]) then
  return { code, about, state or '', redis.call('HGET', calls, key .. '|result') }
end
keep_part(record, ARGV[last - 10], ARGV[last - 9], ARGV[last - 8])
local before = state
if not before then
  state = 'queued'
  redis.call('HSET', calls, key .. '|state', state, key .. '|queue', ARGV[last - 7], key .. '|job', ARGV[last - 6],
    key .. '|call', ARGV[last - 4], key .. '|again', ARGV[last - 3], key .. '|attempts', 0)
  redis.call('HSET', record, 'poison', 0)
  enqueue(ARGV[last - 7], ARGV[last - 6], ARGV[last - 5], now, now)
  redis.call('SADD', ARGV[last], ARGV[last - 1])
end
expire_live(record, now, { ':journal', ':calls', unpack(FLUSHED) })
return { code, about, state, before and redis.call('HGET', calls, key .. '|result') }
