-- Give the run back to its queue, to go on elsewhere: no attempt is consumed.
-- KEYS: record
-- ARGV: as `flush`, then token, ms that the run has computed
-- Returns {code, first seq or slot}.
-- uses: queue log flush run
local record, now = KEYS[1], clock()
local code, about, at = flush(record, ARGV, now, 0, '')
if code ~= DONE then return { code, about } end
local run = redis.call('HMGET', record, 'queue_key', 'job', 'payload', 'created')
if not holds(run[1], run[2], ARGV[at]) then return { LEFT, 0 } end
redis.call('HSET', record, 'status', 'queued', 'poison', 0, 'lapses', 0, 'ran', ARGV[at + 1])
redis.call('HINCRBY', record, 'epoch', 1)
redis.call('HDEL', record, 'owner', 'owner_channel')
unclaim(run[1], run[2])
-- Its first due time, so that it goes before what came later.
enqueue(run[1], run[2], run[3], tonumber(run[4]), now)
expire_live(record, now, FLUSHED)
return { code, about }
