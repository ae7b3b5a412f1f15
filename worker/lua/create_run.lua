-- Accept a run: its record, its queue entry (or its place in the session's line), the answer to its
-- idempotency key, and `run.queued`, all or nothing.
-- KEYS: record, session record, idempotency key or '', runs index, sessions index, queues set,
--   tenants set
-- ARGV: run id, session id, on_conflict, queue depth limit, body digest, idempotency ttl in ms,
--   `run.queued` event, queue name, session retention in ms, session metadata, messages,
--   tenant, then pairs of the record's fields
-- Returns {code, text, run}: 1 created (the run that it interrupts, or ''), 2 the same request came
--   before (its run), 3 another body under this key, 4 session busy (its run), 5 too many wait already
--   (where), 6 the id is taken, 7 the session's run waits for a hook (its run).
-- uses: queue log run
local record, session, seen = KEYS[1], KEYS[2], KEYS[3]
local run_id, session_id = ARGV[1], ARGV[2]
local now, fields, named = clock(), {}, {}
for i = 13, #ARGV do fields[#fields + 1] = ARGV[i] end
for i = 1, #fields, 2 do named[fields[i]] = fields[i + 1] end
local before = seen ~= '' and redis.call('GET', seen)
if before then
  local digest, first_run = string.match(before, '^(%S+) (%S+)$')
  -- The answer is void once its run is there no more: whoever asks again wants one that is.
  if redis.call('EXISTS', named.run_base .. first_run) == 1 then
    if digest == ARGV[5] then return { 2, first_run } end
    return { 3, first_run }
  end
end
if redis.call('EXISTS', record) == 1 then return { 6, run_id } end
local owner = session_owner(session, named.run_base, now)
if owner and ARGV[3] == 'reject' then return { 4, owner } end
if owner and ARGV[3] == '' and asks(named.run_base .. owner) then return { 7, owner } end
local interrupts = owner and (ARGV[3] == 'interrupt' or ARGV[3] == 'rollback')
local limit = tonumber(ARGV[4])
if redis.call('ZCARD', named.queue_key) >= limit then return { 5, 'queue ' .. ARGV[8] } end
if redis.call('LLEN', session .. ':queue') >= limit then
  return { 5, 'the line of session ' .. session_id }
end

local stamp = string.format('%d', now)
if redis.call('EXISTS', session) == 0 then
  redis.call('HSET', session, 'id', session_id, 'created', stamp, 'metadata', ARGV[10])
end
local ordinal = redis.call('RPUSH', session .. ':runs', run_id)
redis.call('HSET', record, 'status', 'queued', 'created', stamp, 'attempt', 0, 'epoch', 0, 'last_seq', 0,
  'log_bytes', 0, 'poison', 0, 'lapses', 0, 'ran', 0, 'ordinal', ordinal, 'session_key', session,
  'start_by', string.format('%d', now + tonumber(named.patience)), unpack(fields))
redis.call('SET', record .. ':input', ARGV[11])
append(record, 1, ARGV[7], now)
expire_live(record, now, PARTS)
if seen ~= '' then redis.call('SET', seen, ARGV[5] .. ' ' .. run_id, 'PX', ARGV[6]) end
redis.call('ZADD', KEYS[4], stamp, run_id)
redis.call('ZADD', KEYS[5], stamp, session_id)
redis.call('SADD', KEYS[6], ARGV[8])
redis.call('SADD', KEYS[7], ARGV[12])
redis.call('HSET', session, 'used', stamp, 'retention', ARGV[9])
if owner then
  redis.call(interrupts and 'LPUSH' or 'RPUSH', session .. ':queue', run_id)
else
  redis.call('HSET', session, 'owner', run_id)
  enqueue_run(record, now, now)
end
keep_session(session)
return { 1, run_id, interrupts and owner or '' }
