-- Settle a run that nobody drives, or that its claim's holder will not drive.
-- KEYS: record
-- ARGV: queue key, job id, token of the claim or '', status, terminal event, pairs of fields
-- Returns 1 settled, 0 somebody else owns it or it is settled.
-- uses: queue log run
local record = KEYS[1]
local status = redis.call('HGET', record, 'status')
if not status or TERMINAL[status] then
  if ARGV[3] ~= '' and holds(ARGV[1], ARGV[2], ARGV[3]) then release(ARGV[1], ARGV[2]) end
  return 0
end
local token = redis.call('HGET', ARGV[1] .. ':tokens', ARGV[2])
if token and token ~= ARGV[3] then return 0 end
local now, fields = clock(), {}
for i = 6, #ARGV do fields[#fields + 1] = ARGV[i] end
append(record, 1, ARGV[5], now)
settle(record, now, ARGV[4], fields)
return 1
