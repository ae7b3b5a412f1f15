-- Shared by every script that appends to a run's log. Needs `queue`.
-- A run's keys are made from its record: <record>:log, :journal, :calls, :yields, :handed, :input,
-- :snapshot, :hooks, :steers.

local PUBLISH_LIMIT = 65536
local TERMINAL = { completed = true, failed = true, cancelled = true, expired = true }
local EXPIRY_MOVES = 1000
local PARTS = { '', ':log', ':journal', ':calls', ':yields', ':handed', ':input', ':snapshot', ':hooks',
  ':steers', ':closing' }

-- All keys of a run end at the same instant.
local function expire(record, parts, at)
  for _, part in ipairs(parts) do
    redis.call('PEXPIREAT', record .. part, string.format('%d', at))
  end
end

-- A live run's keys outlast its deadline by the retention, so that no waiting run can vanish; what it
-- waits for (a hook, a child) may end late, and only then does it go on. Their end moves on once a
-- second; until then only the parts that the script may have made get it.
local function expire_live(record, now, made)
  local run = redis.call('HMGET', record, 'timeout', 'retention', 'patience', 'expires', 'hold_until', 'parent')
  local at = math.max(now, tonumber(run[5] or 0)) + tonumber(run[1]) + tonumber(run[2]) + tonumber(run[3])
  local stands = tonumber(run[4] or 0)
  if at - stands < EXPIRY_MOVES then return expire(record, made, stands) end
  redis.call('HSET', record, 'expires', string.format('%d', at))
  expire(record, PARTS, at)
  local above = run[6] and redis.call('HMGET', run[6], 'status', 'hold_until')
  if above and above[1] and not TERMINAL[above[1]] and at > tonumber(above[2] or 0) then
    redis.call('HSET', run[6], 'hold_until', string.format('%d', at))
    expire_live(run[6], now, {})
  end
end

-- A session's keys end together, some time after its last use.
local function keep_session(session)
  local retention = redis.call('HGET', session, 'retention')
  if not retention then return end
  for _, part in ipairs({ '', ':messages', ':markers', ':queue', ':runs' }) do
    redis.call('PEXPIRE', session .. part, retention)
  end
end

-- What was said in a run whose record alone is kept goes before it, and its session, which is its own.
local function expire_content(record, now)
  local run = redis.call('HMGET', record, 'content_retention', 'session_key')
  if not run[1] then return end
  for _, part in ipairs(PARTS) do
    if part ~= '' then redis.call('PEXPIREAT', record .. part, string.format('%d', now + tonumber(run[1]))) end
  end
  for _, part in ipairs({ '', ':messages', ':markers', ':queue', ':runs' }) do
    redis.call('PEXPIRE', run[2] .. part, run[1])
  end
end

-- Two JSON arrays as one, without reading them.
local function joined(left, right)
  if left == '' or left == '[]' then return right end
  if right == '' or right == '[]' then return left end
  return string.sub(left, 1, -2) .. ',' .. string.sub(right, 2)
end

-- Append one entry of `count` events, publish the same bytes, and return the first event's seq.
local function append(record, count, events, now)
  local attempt = redis.call('HGET', record, 'attempt')
  local last = redis.call('HINCRBY', record, 'last_seq', count)
  local first = last - count + 1
  local stamp = string.format('%d', now)
  redis.call('XADD', record .. ':log', string.format('%d-0', last),
    'attempt', attempt, 'time', stamp, 'events', events)
  redis.call('HINCRBY', record, 'log_bytes', #events)
  local range = string.format('%d %d', first, last)
  if #events > PUBLISH_LIMIT then
    redis.call('PUBLISH', record .. ':log', range)
  else
    redis.call('PUBLISH', record .. ':log', range .. ' ' .. attempt .. ' ' .. stamp .. ' ' .. events)
  end
  return first
end
