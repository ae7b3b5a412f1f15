-- Settle a run that no worker began in time.
-- KEYS: record
-- ARGV: `run.expired` event, error (JSON)
-- Returns 1 settled, 0 its time is not over, or somebody has begun it or has its claim.
-- uses: queue log run
local record = KEYS[1]
local run = redis.call('HMGET', record, 'status', 'attempt', 'start_by', 'queue_key', 'job')
local now = clock()
if run[1] ~= 'queued' or run[2] ~= '0' or now <= tonumber(run[3]) then return 0 end
if redis.call('HEXISTS', run[4] .. ':tokens', run[5]) == 1 then return 0 end
append(record, 1, ARGV[1], now)
settle(record, now, 'expired', { 'error', ARGV[2] })
return 1
