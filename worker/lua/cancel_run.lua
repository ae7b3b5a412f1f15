-- Ask for a run's end. A queued or waiting one is settled here; a running one is flagged and told.
-- KEYS: record
-- ARGV: reason, `run.cancelled` event, error (JSON), 1 when its messages are to be forgotten else 0
-- Returns {code, status, running calls, queued calls}: 1 settled, 2 stopping, 0 too late, -1 unknown.
-- uses: queue log run
local record = KEYS[1]
local run = redis.call('HMGET', record, 'status', 'queue_key', 'job')
if not run[1] then return { -1, '', {}, {} } end
if TERMINAL[run[1]] then return { 0, run[1], {}, {} } end
local now = clock()
if ARGV[4] == '1' then redis.call('HSET', record, 'rollback', '1') end
if run[1] ~= 'running' then
  append(record, 1, ARGV[2], now)
  local stopping, cancelled = settle(record, now, 'cancelled', { 'error', ARGV[3], 'cancel', ARGV[1] })
  return { 1, 'cancelled', stopping, cancelled }
end
redis.call('HSETNX', record, 'cancel', ARGV[1])
redis.call('ZADD', 'arq:abort', string.format('%d', now), run[3])
local running, queued = {}, {}
local all = redis.call('HGETALL', record .. ':calls')
for i = 1, #all, 2 do
  local key = string.match(all[i], '^(.*)|state$')
  if key and all[i + 1] == 'started' then running[#running + 1] = key end
  if key and all[i + 1] == 'queued' then queued[#queued + 1] = key end
end
nudge(record, 'cancel', '', '')
return { 2, 'running', running, queued }
