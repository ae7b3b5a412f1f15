-- Take in what was said to the run since its last turn, and record it, once for all passes.
-- KEYS: record
-- ARGV: as `flush`, then key of the unit
-- Returns {code, first seq or slot, the messages as a JSON array or false, how many were taken so far}.
-- uses: queue log flush
local record, now, key = KEYS[1], clock(), ARGV[#ARGV]
local journal, steers = record .. ':journal', record .. ':steers'
local said = {}
if redis.call('HEXISTS', journal, key) == 0 then said = redis.call('LRANGE', steers, 0, -1) end
local event = #said > 0 and '[{"type":"run.steered","data":{"messages":' .. #said .. '}}]' or ''
local code, about = flush(record, ARGV, now, #said > 0 and 1 or 0, event)
if code ~= DONE and not (code == REPEATED and fenced(record, ARGV[1])) then return { code, about, false, 0 } end
if code == DONE and #said > 0 then
  redis.call('HSET', journal, key, '[' .. table.concat(said, ',') .. ']')
  redis.call('DEL', steers)
  redis.call('HSET', record, 'poison', 0)
end
expire_live(record, now, { ':journal', unpack(FLUSHED) })
local took = tonumber(redis.call('HGET', record, 'said') or 0) - redis.call('LLEN', steers)
return { code, about, redis.call('HGET', journal, key), took }
