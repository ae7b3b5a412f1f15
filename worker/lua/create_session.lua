-- Open a session, once.
-- KEYS: session record, sessions index, tenants set
-- ARGV: session id, metadata (JSON), retention in ms, tenant
-- Returns 1 created, 0 it exists.
-- uses: queue log
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local stamp = string.format('%d', clock())
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'created', stamp, 'used', stamp, 'metadata', ARGV[2], 'retention', ARGV[3])
redis.call('ZADD', KEYS[2], stamp, ARGV[1])
redis.call('SADD', KEYS[3], ARGV[4])
keep_session(KEYS[1])
return 1
