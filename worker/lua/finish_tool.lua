-- Record a tool's result, once: the result, its ledger entry and the nudge to its loop together.
-- A late or stale result is refused.
-- KEYS: record
-- ARGV: queue key, job id, token, call key, state (done, lost or cancelled), result, events or ''
-- Returns 1 recorded, now or by the same script before, 0 the claim is not ours, -1 too late.
-- uses: queue log run gate
local record, queue, job, key = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local now, calls = clock(), record .. ':calls'
if not holds(queue, job, ARGV[3]) then
  -- The reply may have been lost: then all stands there as it would be written now.
  local written = redis.call('HMGET', calls, key .. '|token', key .. '|state', key .. '|result')
  return written[1] == ARGV[3] and written[2] == ARGV[5] and written[3] == ARGV[6] and 1 or 0
end
local status = redis.call('HGET', record, 'status')
local state, gate = unpack(redis.call('HMGET', calls, key .. '|state', key .. '|gate'))
release(queue, job)
if gate then leave_gate(gate, job, now) end
if not status or TERMINAL[status] or (state ~= 'started' and state ~= 'queued') then return -1 end
redis.call('HSET', calls, key .. '|state', ARGV[5], key .. '|result', ARGV[6])
if ARGV[7] ~= '' then append(record, 1, ARGV[7], now) end
answer(record, now, 'call', key, ARGV[6])
expire_live(record, now, {})
return 1
