-- Make a run that goes on where one that has ended stopped: with what it was answered, and in its place
-- in the session, which forgets the messages that it left.
-- KEYS: record of the run that has ended
-- ARGV: n and the keys of `create_run`, n and its arguments, then what `carry` takes
-- Returns {code, text}: 1 made, 2 the same request came before (its run), 3 another body under this key, 0 it has not ended, -1 there is no such run, 4 session busy (its run),
--   5 too many wait already, 7 the session has gone on without it (its last run, or '').
-- uses: queue log run new_run
local before, now = KEYS[1], clock()
local keys, at = take(ARGV, 1)
local given
given, at = take(ARGV, at)
local record, session, named = keys[1], keys[2], fields_of(given)
local answer, made = asked_before(keys, given)
if answer then return { answer, made } end
local was = redis.call('HMGET', before, 'status', 'session_start', 'left', 'session_kept', 'session_marks')
if not was[1] then return { -1, '' } end
if not TERMINAL[was[1]] then return { 0, was[1] } end
local owner = session_owner(session, named.run_base, now)
if owner then return { 4, owner } end
local last = redis.call('LINDEX', session .. ':runs', -1)
if last ~= named.retry_of then return { 7, last or '' } end
if redis.call('ZCARD', named.queue_key) >= tonumber(given[4]) then return { 5, 'queue ' .. given[8] } end

local start = was[2] and tonumber(was[2])
-- What was said to it and never taken in is said to this one.
local said = start and was[3] and redis.call('LRANGE', session .. ':messages', -tonumber(was[3]), -1) or {}
if start then cut_session(session, start, was[4], was[5]) end
make_run(keys, given, now)
if start then
  redis.call('HSET', record, 'session_start', start, 'session_kept', was[4] or 0, 'session_marks', was[5] or 0)
end
if #said > 0 then
  redis.call('RPUSH', record .. ':steers', unpack(said))
  redis.call('HSET', record, 'said', #said)
end
carry(record, ARGV, at, now)
return { 1, given[1] }
