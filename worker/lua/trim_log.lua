-- Cut the log's head, after it was folded into the snapshot. Only the run's owner may.
-- KEYS: record
-- ARGV: epoch, seq of the last event that is cut, snapshot, its bytes in the log
-- Returns 1 cut, 0 the fence refused.
-- uses: queue log flush
local record = KEYS[1]
if not fenced(record, ARGV[1]) then return 0 end
redis.call('SET', record .. ':snapshot', ARGV[3])
redis.call('XTRIM', record .. ':log', 'MINID', string.format('%d-1', tonumber(ARGV[2])))
redis.call('HINCRBY', record, 'log_bytes', -tonumber(ARGV[4]))
redis.call('HSET', record, 'cut', ARGV[2])
expire_live(record, clock(), { ':snapshot' })
return 1
