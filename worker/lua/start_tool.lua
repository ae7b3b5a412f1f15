-- A worker begins to fulfil a call. One that had started when its worker died is begun again only
-- when it may be; else its outcome is unknown, and the loop is told so.
-- KEYS: record
-- ARGV: queue key, job id, token, call key, worker id, worker's channel, pid, lapses of the claim,
--   most lapses, result when lost, result when poison
-- Returns {code, call, attempt, agent, session id, run id, id of the run with whose work it goes on}: 0 the claim is not ours, -1 nothing to do,
--   -2 lost, -3 poison, -4 too many of its tool run, 1 begin.
-- uses: queue log run gate
local record, queue, job, key = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
if not holds(queue, job, ARGV[3]) then return { 0 } end
redis.call('DEL', queue .. ':unknown:' .. job)
local now, calls = clock(), record .. ':calls'
local run = redis.call('HMGET', record, 'agent', 'session', 'id', 'status', 'origin')
local call = redis.call('HMGET', calls, key .. '|state', key .. '|again', key .. '|call', key .. '|job', key .. '|token',
  key .. '|gate')
if not run[4] or TERMINAL[run[4]] or (call[1] ~= 'queued' and call[1] ~= 'started')
  or call[4] ~= job then
  release(queue, job)
  return { -1 }
end
-- The same claim asks again: the reply to its first asking was lost.
local is_repeat = call[5] == ARGV[3]
local lost, poison = call[1] == 'started' and call[2] ~= '1' and not is_repeat, tonumber(ARGV[8]) >= tonumber(ARGV[9])
if lost or poison then
  local result = lost and ARGV[10] or ARGV[11]
  redis.call('HSET', calls, key .. '|state', lost and 'lost' or 'done', key .. '|result', result)
  if lost then append(record, 1, '[{"type":"tool.lost","data":{"call":"' .. key .. '"}}]', now) end
  release(queue, job)
  if call[6] then leave_gate(call[6], job, now) end
  answer(record, now, 'call', key, result)
  expire_live(record, now, {})
  return { lost and -2 or -3 }
end
if call[6] and not is_repeat and not goes_through(call[6], queue, job, ARGV[3], now) then
  redis.call('HSET', calls, key .. '|held', string.format('%d', now))
  return { -4 }
end
local attempt = redis.call('HINCRBY', calls, key .. '|attempts', is_repeat and 0 or 1)
local begun = { 1, call[3], attempt, run[1], run[2], run[3], run[5] or '' }
if is_repeat then return begun end
redis.call('HSET', calls, key .. '|state', 'started', key .. '|worker', ARGV[5], key .. '|channel', ARGV[6],
  key .. '|token', ARGV[3])
append(record, 1, '[{"type":"tool.started","data":{"call":"' .. key .. '","worker":"' .. ARGV[5] .. '","pid":' .. ARGV[7]
  .. ',"attempt":' .. string.format('%d', attempt) .. '}}]', now)
expire_live(record, now, {})
return begun
