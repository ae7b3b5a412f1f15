-- Forget a session that no run owns, and that none waits for.
-- KEYS: session record, sessions index
-- ARGV: session id, what a run's record is called before its id
-- Returns {code, text}: 1 gone, 0 a run owns it or waits for it (its id), -1 unknown.
-- uses: queue log run
local session = KEYS[1]
if redis.call('EXISTS', session) == 0 then return { -1, '' } end
local owner = session_owner(session, ARGV[2], clock())
if owner then return { 0, owner } end
for _, part in ipairs({ '', ':messages', ':markers', ':queue', ':runs' }) do redis.call('DEL', session .. part) end
redis.call('ZREM', KEYS[2], ARGV[1])
return { 1, '' }
