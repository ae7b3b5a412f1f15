-- Open a session, once; and its answer to an idempotency key.
-- KEYS: session record, sessions index, tenants set, idempotency key or ''
-- ARGV: session id, metadata (JSON), retention in ms, tenant, body digest, idempotency ttl in ms,
--   what a session's record is called before its id
-- Returns {code, text}: 1 created (its id), 2 the same request came before (its session), 3 another
--   body under this key (its session), 0 the id is taken.
-- uses: queue log
local session, seen, session_id = KEYS[1], KEYS[4], ARGV[1]
local before = seen ~= '' and redis.call('GET', seen)
if before then
  local digest, first = string.match(before, '^(%S+) (%S+)$')
  -- The answer is void once its session is there no more.
  if redis.call('EXISTS', ARGV[7] .. first) == 1 then
    return { digest == ARGV[5] and 2 or 3, first }
  end
end
if redis.call('EXISTS', session) == 1 then return { 0, session_id } end
local stamp = string.format('%d', clock())
redis.call('HSET', session, 'id', session_id, 'created', stamp, 'used', stamp, 'metadata', ARGV[2], 'retention', ARGV[3])
redis.call('ZADD', KEYS[2], stamp, session_id)
redis.call('SADD', KEYS[3], ARGV[4])
if seen ~= '' then redis.call('SET', seen, ARGV[5] .. ' ' .. session_id, 'PX', ARGV[6]) end
keep_session(session)
return { 1, session_id }
