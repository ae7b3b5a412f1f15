-- Append what a loop yielded.
-- KEYS: record
-- ARGV: as `flush`
-- Returns {code, first seq or slot, bytes in the log, last seq}.
-- uses: queue log flush
local record, now = KEYS[1], clock()
local code, about = flush(record, ARGV, now, 0, '')
if code == DONE then expire_live(record, now, FLUSHED) end
local size = redis.call('HMGET', record, 'log_bytes', 'last_seq')
return { code, about, tonumber(size[1] or 0), tonumber(size[2] or 0) }
