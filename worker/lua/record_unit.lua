-- Record an answered unit, with what was yielded before it; a recorded turn is no longer open.
-- The log never lags behind the journal. A new entry of the journal is progress: poison starts anew.
-- KEYS: record
-- ARGV: as `flush`, then unit key, record
-- Returns {code, first seq or slot}.
-- uses: queue log flush
local record, now = KEYS[1], clock()
local code, about, at = flush(record, ARGV, now, 0, '')
if code ~= DONE then return { code, about } end
local key = ARGV[at]
redis.call('HSET', record .. ':journal', key, ARGV[at + 1])
redis.call('HDEL', record .. ':journal', 'part:' .. key)
redis.call('HDEL', record, 'open:' .. key, 'failed:' .. key)
redis.call('HSET', record, 'poison', 0)
expire_live(record, now, { ':journal', unpack(FLUSHED) })
return { code, about }
