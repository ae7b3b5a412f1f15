-- Shared by every script that opens or closes a hook. Needs `queue`, `log` and `run`.
-- <record>:hooks is a hash: "@<label>" is the key of the label's last hook, "<key>|<field>" a hook's
-- state (open, resolved, expired, cancelled), told (what its events begin with; '' for a sleep and a
-- child), about (of a child its id), ends, answer, for one of a tool job its channel and job, and for a
-- child its output.

-- Whoever waits for the hook hears of it: the tool job that opened it, else the run.
local function tell_answer(record, now, key, value)
  local asker = redis.call('HMGET', record .. ':hooks', key .. '|channel', key .. '|job')
  if asker[1] then
    redis.call('PUBLISH', asker[1], asker[2] .. '\nhook\n' .. key .. '\n' .. value)
  else
    answer(record, now, 'hook', key, value)
  end
end

-- Who follows a run hears of the hooks of its children as well.
local function tell_above(record, now, event)
  local run = redis.call('HMGET', record, 'parent', 'id')
  local parent, at = run[1], string.find(event, '"data":{', 1, true)
  if not parent or not at then return end
  local told = string.sub(event, 1, at + 7) .. '"run":"' .. run[2] .. '",' .. string.sub(event, at + 8)
  -- The number of a turn is that of its own run.
  told = string.gsub(told, ',"turn":%d+}]$', '}]')
  while parent do
    local above = redis.call('HMGET', parent, 'status', 'parent')
    if not above[1] or TERMINAL[above[1]] then return end
    append(parent, 1, told, now)
    expire_live(parent, now, {})
    parent = above[2]
  end
end

-- A hook is closed once. `more` is what its event tells besides, as JSON after a comma.
local function close_hook(record, now, key, state, value, more)
  local hooks = record .. ':hooks'
  redis.call('HSET', hooks, key .. '|state', state, key .. '|answer', value)
  local told = redis.call('HGET', hooks, key .. '|told')
  if told ~= '' then
    local run = redis.call('HMGET', record, 'hooks_key', 'id')
    redis.call('ZREM', run[1], run[2] .. ' ' .. key)
    local event = '[{"type":"hook.' .. state .. '","data":{' .. told .. more .. '}}]'
    append(record, 1, event, now)
    tell_above(record, now, event)
  end
  tell_answer(record, now, key, value)
end

local EXPIRED = '{"status":"expired","data":null,"reason":null}'
local SUPERSEDED = '{"status":"cancelled","data":null,"reason":"superseded"}'

-- One that was asked under the same label for something else is not open any more.
local function open_hook(record, now, key, label, told, ends, about)
  local hooks, run = record .. ':hooks', redis.call('HMGET', record, 'hooks_key', 'timers_key', 'id', 'hold_until')
  if label ~= '' then
    local before = redis.call('HGET', hooks, '@' .. label)
    if before and redis.call('HGET', hooks, before .. '|state') == 'open' then
      close_hook(record, now, before, 'cancelled', SUPERSEDED, ',"reason":"superseded"')
    end
    redis.call('HSET', hooks, '@' .. label, key)
    redis.call('ZADD', run[1], string.format('%d', now), run[3] .. ' ' .. key)
  end
  local stamp = string.format('%d', ends)
  redis.call('HSET', hooks, key .. '|state', 'open', key .. '|told', told, key .. '|about', about, key .. '|ends', stamp)
  redis.call('ZADD', run[2], 'LT', stamp, record)
  if ends > tonumber(run[4] or 0) then redis.call('HSET', record, 'hold_until', stamp) end
end

-- Close each hook whose time is over; returns when the next one's is, nil when none is open.
local function close_due_hooks(record, now)
  local hooks, soonest = record .. ':hooks', nil
  local fields = redis.call('HGETALL', hooks)
  for i = 1, #fields, 2 do
    local key = string.match(fields[i], '^(.*)|state$')
    if key and fields[i + 1] == 'open' then
      local ends = tonumber(redis.call('HGET', hooks, key .. '|ends'))
      if ends <= now then
        close_hook(record, now, key, 'expired', EXPIRED, '')
      elseif ends < tonumber(NEVER) then
        soonest = math.min(soonest or math.huge, ends)
      end
    end
  end
  return soonest
end
