-- Forget a session that no run owns.
-- KEYS: session record, sessions index
-- ARGV: session id
-- Returns {code, text}: 1 gone, 0 a run owns it (its id), -1 unknown.
if redis.call('EXISTS', KEYS[1]) == 0 then return { -1, '' } end
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner then return { 0, owner } end
for _, part in ipairs({ '', ':messages', ':queue', ':runs' }) do redis.call('DEL', KEYS[1] .. part) end
redis.call('ZREM', KEYS[2], ARGV[1])
return { 1, '' }
