-- Accept a run: its record, its queue entry (or its place in the session's line), the answer to its
-- idempotency key, and `run.queued`, all or nothing.
-- KEYS: record, session record, idempotency key or '', runs index, sessions index, queues set,
--   tenants set
-- ARGV: run id, session id, on_conflict, queue depth limit, body digest, idempotency ttl in ms,
--   `run.queued` event, queue name, session retention in ms, session metadata, messages,
--   tenant, then pairs of the record's fields
-- Returns {code, text, run}: 1 created (the run that it interrupts, or ''), 2 the same request came
--   before (its run), 3 another body under this key, 4 session busy (its run), 5 too many wait already
--   (where), 6 the id is taken, 7 the session's run waits for a hook (its run), 8 the session's run is
--   the one to steer (its run).
-- uses: queue log run new_run
local record, session = KEYS[1], KEYS[2]
local run_id, session_id = ARGV[1], ARGV[2]
local now, named = clock(), fields_of(ARGV)
local answer, first_run = asked_before(KEYS, ARGV)
if answer then return { answer, first_run } end
if redis.call('EXISTS', record) == 1 then return { 6, run_id } end
local owner = session_owner(session, named.run_base, now)
if owner and ARGV[3] == 'reject' then return { 4, owner } end
if owner and ARGV[3] == 'steer' then
  local is_its = redis.call('HGET', named.run_base .. owner, 'agent') == named.agent
  return { is_its and 8 or 4, owner }
end
if owner and ARGV[3] == '' and asks(named.run_base .. owner) then return { 7, owner } end
local interrupts = owner and (ARGV[3] == 'interrupt' or ARGV[3] == 'rollback')
local limit = tonumber(ARGV[4])
if redis.call('ZCARD', named.queue_key) >= limit then return { 5, 'queue ' .. ARGV[8] } end
if redis.call('LLEN', session .. ':queue') >= limit then
  return { 5, 'the line of session ' .. session_id }
end

make_run(KEYS, ARGV, now, owner, interrupts)
return { 1, run_id, interrupts and owner or '' }
