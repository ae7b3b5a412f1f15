-- Forget a settled run: its record, log, journal, ledger and input.
-- KEYS: record, runs index
-- ARGV: run id
-- Returns 1 gone, 0 it still runs, -1 unknown.
-- uses: queue log
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return -1 end
if not TERMINAL[status] then return 0 end
for _, part in ipairs(PARTS) do redis.call('DEL', KEYS[1] .. part) end
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
