-- Start a call once: write its turn up to and with its block into the journal, and enqueue its job.
-- From here on the turn is never asked again.
-- KEYS: record
-- ARGV: as `flush`, then call key, turn key or '', part of the turn, its length in events, queue key,
--   job id, payload, call (JSON), 1 when it may run again after a crash else 0, `tool.queued` event,
--   queue name, queues set, '' or how many of its tool may run at a time and the gate that counts them,
--   what of it nobody is shown (JSON) or ''
-- Returns {code, first seq or slot, state, result or false}.
-- uses: queue log flush
local record, now, calls, at = KEYS[1], clock(), KEYS[1] .. ':calls', past(ARGV)
local key, turn, part, length, queue, job, payload, call, again, queued, name, queues, gate, hides = unpack(ARGV, at)
local state = redis.call('HGET', calls, key .. '|state')
local code, about = flush(record, ARGV, now, state and 0 or 1, state and '' or queued)
if code ~= DONE and code ~= REPEATED then return { code, about, '', false } end
if code == REPEATED and not fenced(record, ARGV[1]) then
  return { code, about, state or '', redis.call('HGET', calls, key .. '|result') }
end
keep_part(record, turn, part, length)
local before = state
if not before then
  state = 'queued'
  redis.call('HSET', calls, key .. '|state', state, key .. '|queue', queue, key .. '|job', job,
    key .. '|call', call, key .. '|again', again, key .. '|attempts', 0)
  if gate ~= '' then redis.call('HSET', calls, key .. '|gate', gate) end
  if hides ~= '' then redis.call('HSET', calls, key .. '|hides', hides) end
  redis.call('HSET', record, 'poison', 0)
  enqueue(queue, job, payload, now, now)
  redis.call('SADD', queues, name)
end
expire_live(record, now, { ':journal', ':calls', unpack(FLUSHED) })
return { code, about, state, before and redis.call('HGET', calls, key .. '|result') }
