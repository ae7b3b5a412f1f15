-- Shared by every script that moves a run. Needs `queue` and `log`.

-- Tell whoever drives the run what happened; a lost message costs its owner one sweep, never a hang.
local function nudge(record, kind, key, value)
  local owner = redis.call('HMGET', record, 'owner_channel', 'job')
  if owner[1] then
    redis.call('PUBLISH', owner[1], owner[2] .. '\n' .. kind .. '\n' .. key .. '\n' .. value)
  end
end

local function enqueue_run(record, now, due)
  local job = redis.call('HMGET', record, 'queue_key', 'job', 'payload')
  enqueue(job[1], job[2], job[3], due, now)
end

-- Something that a run may wait for was answered: a waiting run is queued, once; a running one is told.
local function answer(record, now, kind, key, value)
  local status = redis.call('HGET', record, 'status')
  if status == 'waiting' then
    redis.call('HSET', record, 'status', 'queued')
    enqueue_run(record, now, now)
  elseif status == 'running' then
    nudge(record, kind, key, value)
  end
end

-- The session goes to the next run that waits for it, which is returned.
local function hand_on_session(session, base, now)
  redis.call('HDEL', session, 'owner')
  while true do
    local next_run = redis.call('LPOP', session .. ':queue')
    if not next_run then return nil end
    local waiting = base .. next_run
    if redis.call('HGET', waiting, 'status') == 'queued' then
      redis.call('HSET', session, 'owner', next_run)
      enqueue_run(waiting, now, now)
      return next_run
    end
  end
end

-- The run that has the session, nil for none; one whose record is gone has it no more.
local function session_owner(session, base, now)
  local owner = redis.call('HGET', session, 'owner')
  if not owner then return nil end
  if redis.call('EXISTS', base .. owner) == 1 then return owner end
  return hand_on_session(session, base, now)
end

local function free_session(record, now)
  local names = redis.call('HMGET', record, 'session_key', 'run_base', 'id')
  local session, base, run_id = names[1], names[2], names[3]
  redis.call('LREM', session .. ':queue', 0, run_id)
  if session_owner(session, base, now) == run_id then hand_on_session(session, base, now) end
end

-- Every call without an answer is closed: a queued one never starts, a started one is told to stop.
-- Returns the keys of the started ones and of those that were only queued.
local function cancel_calls(record, now)
  local calls = record .. ':calls'
  local all, stopping, cancelled = redis.call('HGETALL', calls), {}, {}
  for i = 1, #all, 2 do
    local key = string.match(all[i], '^(.*)|state$')
    if key and (all[i + 1] == 'queued' or all[i + 1] == 'started') then
      local job = redis.call('HMGET', calls, key .. '|queue', key .. '|job', key .. '|channel')
      redis.call('HSET', calls, key .. '|state', 'cancelled')
      if all[i + 1] == 'started' then
        stopping[#stopping + 1] = key
        redis.call('ZADD', 'arq:abort', string.format('%d', now), job[2])
        redis.call('PUBLISH', job[3], job[2] .. '\ncancel\n\n')
      else
        cancelled[#cancelled + 1] = key
        release(job[1], job[2])
      end
    end
  end
  return stopping, cancelled
end

-- Whether a run is parked, and waits for what somebody has to answer.
local function asks(record)
  if redis.call('HGET', record, 'status') ~= 'waiting' then return false end
  local hooks = record .. ':hooks'
  local all = redis.call('HGETALL', hooks)
  for i = 1, #all, 2 do
    local key = string.match(all[i], '^(.*)|state$')
    if key and all[i + 1] == 'open' and redis.call('HGET', hooks, key .. '|told') ~= '' then return true end
  end
  return false
end

local function cut(list, count)
  if count == 0 then redis.call('DEL', list) else redis.call('LTRIM', list, 0, count - 1) end
end

-- The session is as it was when a run began: so many messages, needed from a place on, so many markers.
local function cut_session(session, start, kept, marks)
  cut(session .. ':messages', tonumber(start))
  cut(session .. ':markers', tonumber(marks or 0))
  redis.call('HSET', session, 'kept', kept or 0)
end

-- Of a run that is rolled back the session keeps nothing.
local function roll_back(record)
  local run = redis.call('HMGET', record, 'rollback', 'session_key', 'session_start', 'session_kept', 'session_marks')
  if run[1] and run[3] then cut_session(run[2], run[3], run[4], run[5]) end
end

local NEVER = '9007199254740991'
local PARENT_ENDED = '{"code":"cancelled","message":"the run that started it has ended"}'
local settle

-- Ask for a run's end: one that nobody drives is settled, another one is told. Returns what
-- `cancel_run` does.
local function cancel(record, now, reason, failure)
  local run = redis.call('HMGET', record, 'status', 'queue_key', 'job')
  if not run[1] then return -1, '', {}, {} end
  if TERMINAL[run[1]] then return 0, run[1], {}, {} end
  if run[1] ~= 'running' then
    append(record, 1, '[{"type":"run.cancelled","data":' .. failure .. '}]', now)
    local stopping, cancelled = settle(record, now, 'cancelled', { 'error', failure, 'cancel', reason })
    return 1, 'cancelled', stopping, cancelled
  end
  redis.call('HSETNX', record, 'cancel', reason)
  redis.call('ZADD', 'arq:abort', string.format('%d', now), run[3])
  local running, queued = {}, {}
  local all = redis.call('HGETALL', record .. ':calls')
  for i = 1, #all, 2 do
    local key = string.match(all[i], '^(.*)|state$')
    if key and all[i + 1] == 'started' then running[#running + 1] = key end
    if key and all[i + 1] == 'queued' then queued[#queued + 1] = key end
  end
  nudge(record, 'cancel', '', '')
  return 2, 'running', running, queued
end

-- Of a run that has ended no hook is open, and no child goes on.
local function drop_hooks(record, now)
  local hooks = record .. ':hooks'
  local all = redis.call('HGETALL', hooks)
  if #all == 0 then return end
  local run = redis.call('HMGET', record, 'hooks_key', 'timers_key', 'id', 'run_base')
  for i = 1, #all, 2 do
    local key = string.match(all[i], '^(.*)|state$')
    if key and all[i + 1] == 'open' then
      redis.call('HSET', hooks, key .. '|state', 'cancelled')
      redis.call('ZREM', run[1], run[3] .. ' ' .. key)
      if string.sub(key, 1, 6) == 'child:' then
        cancel(run[4] .. redis.call('HGET', hooks, key .. '|about'), now, 'parent', PARENT_ENDED)
      end
    end
  end
  redis.call('ZREM', run[2], record)
end

-- What came of a child is an answer to its parent, which keeps it longer than the child is kept.
local function tell_parent(record, now, status)
  local run = redis.call('HMGET', record, 'parent', 'parent_key', 'id', 'agent', 'output', 'usage', 'error', 'spent')
  local parent, key, hooks = run[1], run[2], (run[1] or '') .. ':hooks'
  local above = parent and redis.call('HGET', parent, 'status')
  if not above or TERMINAL[above] or redis.call('HGET', hooks, key .. '|state') ~= 'open' then return end
  local who = '{"run":"' .. run[3] .. '","agent":"' .. run[4] .. '","status":"' .. status .. '"'
  local value = who .. ',"usage":' .. (run[6] or 'null') .. ',"error":' .. (run[7] or 'null')
    .. ',"spent":' .. (run[8] or 'null') .. '}'
  redis.call('HSET', hooks, key .. '|state', 'resolved', key .. '|answer', value, key .. '|output', run[5] or '')
  append(parent, 1, '[{"type":"child.finished","data":' .. who .. '}}]', now)
  answer(parent, now, 'hook', key, value)
  expire_live(parent, now, {})
end

-- A run that ends while it waits leaves what it has said and done in the middle of its turn.
local function leave_closing(record)
  local closing = record .. ':closing'
  local left = redis.call('LRANGE', closing, 0, -1)
  local run = redis.call('HMGET', record, 'session_key', 'rollback')
  if #left > 0 and not run[2] then
    for _, message in ipairs(left) do redis.call('RPUSH', run[1] .. ':messages', message) end
    keep_session(run[1])
  end
  redis.call('DEL', closing)
end

-- What was said to a run and never taken in stands in its session, for the next one.
local function leave_steers(record)
  local steers = record .. ':steers'
  local left = redis.call('LRANGE', steers, 0, -1)
  local run = redis.call('HMGET', record, 'session_key', 'session_start', 'rollback')
  if #left == 0 or not run[2] or run[3] then return end
  redis.call('RPUSH', run[1] .. ':messages', unpack(left))
  redis.call('HSET', record, 'left', #left)
  redis.call('DEL', steers)
  keep_session(run[1])
end

-- Terminal: the status is readable before its event; the claim, the session and open calls are let go.
settle = function(record, now, status, fields)
  redis.call('HSET', record, 'status', status, 'finished', string.format('%d', now), unpack(fields))
  redis.call('HINCRBY', record, 'epoch', 1)
  redis.call('HDEL', record, 'owner', 'owner_channel')
  local job = redis.call('HMGET', record, 'queue_key', 'job', 'retention')
  release(job[1], job[2])
  local stopping, cancelled = cancel_calls(record, now)
  drop_hooks(record, now)
  if status == 'cancelled' then roll_back(record) end
  leave_closing(record)
  leave_steers(record)
  free_session(record, now)
  redis.call('DEL', record .. ':yields')
  if status == 'completed' then redis.call('DEL', record .. ':journal', record .. ':handed') end
  expire(record, PARTS, now + tonumber(job[3]))
  expire_content(record, now)
  tell_parent(record, now, status)
  return stopping, cancelled
end
