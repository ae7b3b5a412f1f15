-- Begin a pass: a worker that holds the job's claim takes the run as its own.
-- An open turn (asked, not completely recorded) is voided first: every later yield is forgotten.
-- KEYS: record
-- ARGV: queue key, job id, token, worker id, owner channel, lapses of the claim, reason of a retry or ''
-- Returns {code, …}: 0 the claim is not ours, -1 nothing to drive (the job is gone), -2 its time to
--   start is over, 1 then epoch, record, journal, calls, yields, handed, input, session prefix,
--   how many messages wait that were said to it, how many the session has of the run, from which place on
--   the prefix is, how many markers the session had, the newest of them or ''.
-- uses: queue log run
local record, queue, job = KEYS[1], ARGV[1], ARGV[2]
if not holds(queue, job, ARGV[3]) then return { 0 } end
redis.call('DEL', queue .. ':unknown:' .. job)
local now = clock()
local was = redis.call('HMGET', record, 'status', 'attempt', 'lapses', 'start_by', 'session_key', 'started', 'job')
if not was[1] or TERMINAL[was[1]] or was[1] == 'waiting' or was[7] ~= job then
  release(queue, job)
  return { -1 }
end
local attempt, taken = tonumber(was[2]), math.max(0, tonumber(ARGV[6]) - tonumber(was[3]))
if attempt == 0 and now > tonumber(was[4]) then return { -2 } end

-- Void what the oldest open turn and all after it showed.
local after = nil
local fields = redis.call('HGETALL', record)
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 5) == 'open:' then
    after = math.min(after or math.huge, tonumber(fields[i + 1]))
    redis.call('HDEL', record, fields[i])
  end
end
local yields = record .. ':yields'
while after do
  local tail = redis.call('LINDEX', yields, -1)
  if not tail then break end
  local first, packed = string.match(tail, '^(%d+):(.*)$')
  local kept = {}
  for i = 1, #packed, 10 do
    local index = string.byte(packed, i) * 256 + string.byte(packed, i + 1)
    if tonumber(first) + index <= after then kept[#kept + 1] = string.sub(packed, i, i + 9) end
  end
  if #kept * 10 == #packed then break end
  redis.call('RPOP', yields)
  if #kept > 0 then
    redis.call('RPUSH', yields, first .. ':' .. table.concat(kept))
    break
  end
end

redis.call('DEL', record .. ':closing')
local kind, reason = 'run.resumed', ''
if attempt == 0 then kind = 'run.started' end
if taken > 0 then kind, reason = 'run.retrying', 'worker_lost' end
if ARGV[7] ~= '' then
  kind, reason = ARGV[7] == 'steered' and 'run.resumed' or 'run.retrying', ARGV[7]
end
if attempt == 0 or taken > 0 then attempt = attempt + 1 end
redis.call('HSET', record, 'status', 'running', 'attempt', attempt, 'owner', ARGV[4], 'owner_channel', ARGV[5],
  'lapses', ARGV[6])
redis.call('HINCRBY', record, 'poison', taken)
local epoch = redis.call('HINCRBY', record, 'epoch', 1)
redis.call('HSET', record, 'sent', string.format('%d.0', epoch))
if not was[6] then
  redis.call('HSET', record, 'started', string.format('%d', now))
  -- A run that goes on with another one's work has its place in the session.
  if redis.call('HSETNX', record, 'session_start', redis.call('LLEN', was[5] .. ':messages')) == 1 then
    redis.call('HSET', record, 'session_kept', redis.call('HGET', was[5], 'kept') or 0,
      'session_marks', redis.call('LLEN', was[5] .. ':markers'))
  end
end
local said = '{"type":"' .. kind .. '","data":{"attempt":' .. string.format('%d', attempt)
  .. ',"worker":"' .. ARGV[4] .. '"'
if reason ~= '' then said = said .. ',"reason":"' .. reason .. '"' end
said = '[' .. said .. '}}'
local count = 1
if after then
  said = said .. ',{"type":"turn.reset","data":{"after":' .. string.format('%d', after)
    .. ',"reason":"' .. (reason ~= '' and reason or 'resumed') .. '"}}'
  count = 2
end
append(record, count, said .. ']', now)
expire_live(record, now, { ':yields' })
local place = redis.call('HMGET', record, 'session_start', 'session_kept', 'session_marks')
local start, kept, marks = tonumber(place[1]), tonumber(place[2] or 0), tonumber(place[3] or 0)
return {
  1, epoch, redis.call('HGETALL', record), redis.call('HGETALL', record .. ':journal'),
  redis.call('HGETALL', record .. ':calls'), redis.call('LRANGE', yields, 0, -1),
  redis.call('LRANGE', record .. ':handed', 0, -1), redis.call('GET', record .. ':input'),
  start > kept and redis.call('LRANGE', was[5] .. ':messages', kept, start - 1) or {},
  redis.call('LLEN', record .. ':steers'), math.max(0, redis.call('LLEN', was[5] .. ':messages') - start),
  kept, marks, marks > 0 and redis.call('LINDEX', was[5] .. ':markers', marks - 1) or '',
}
