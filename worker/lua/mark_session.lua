-- Append what a loop yielded, and note what the session's next runs are shown instead of its older part.
-- A marker is created once: a run that is resumed comes to it again.
-- KEYS: record
-- ARGV: as `flush`, then the place of the first message that is still needed, the marker's own, the marker
-- Returns {code, first seq or slot}.
-- uses: queue log flush
local record, now = KEYS[1], clock()
local code, about, at = flush(record, ARGV, now, 0, '')
if code ~= DONE then return { code, about } end
local session = redis.call('HGET', record, 'session_key')
if redis.call('LLEN', session .. ':markers') == tonumber(ARGV[at + 1]) then
  redis.call('RPUSH', session .. ':markers', ARGV[at + 2])
  redis.call('HSET', session, 'kept', ARGV[at])
  keep_session(session)
end
expire_live(record, now, FLUSHED)
return { code, about }
