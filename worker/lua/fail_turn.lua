-- A provider failed after partial output: count it, and end the pass. The next one meets the turn as
-- after a crash.
-- KEYS: record
-- ARGV: as `flush`, then turn key
-- Returns {code, first seq or slot}.
-- uses: queue log flush
local record = KEYS[1]
local now = clock()
local code, about, at = flush(record, ARGV, now, 0, '')
if code ~= DONE then return { code, about } end
redis.call('HINCRBY', record, 'failed:' .. ARGV[at], 1)
redis.call('HINCRBY', record, 'epoch', 1)
expire_live(record, now, FLUSHED)
return { code, about }
