-- Ask for a run's end. A queued or waiting one is settled here; a running one is flagged and told.
-- KEYS: record
-- ARGV: reason, error (JSON), 1 when its messages are to be forgotten else 0
-- Returns {code, status, running calls, queued calls}: 1 settled, 2 stopping, 0 too late, -1 unknown.
-- uses: queue log run
local record = KEYS[1]
local status = redis.call('HGET', record, 'status')
if status and not TERMINAL[status] and ARGV[3] == '1' then redis.call('HSET', record, 'rollback', '1') end
return { cancel(record, clock(), ARGV[1], ARGV[2]) }
