-- Shared by every script of a loop: check the fence, then append what was yielded before. Needs `log`.
-- The script that flushes sets the expiry, last.
-- Arguments: epoch, number of the script in its pass, count, events, digests,
--   opened turns (n, then "<index> <key>" each), handed-over keys (n, then each),
--   first slot, messages (n, then each).
-- Digests are packed: two bytes of index into the events, eight of digest, for each yield.
-- A pass numbers its scripts 1, 2, 3 …: one whose reply was lost is sent again and is not done twice,
-- and none is done before the one ahead of it.

-- The parts of a run that `flush` may make.
local FLUSHED = { ':yields', ':handed' }
local LEFT, DONE, DIVERGED, GO_ON, GAP, REPEATED = 0, 1, 2, 3, 4, 5

local function fenced(record, epoch)
  local run = redis.call('HMGET', record, 'epoch', 'status')
  return run[1] == epoch and run[2] == 'running'
end

-- Returns nil when the script may go on.
local function refusal(record, epoch, number)
  local run = redis.call('HMGET', record, 'sent', 'epoch', 'status')
  if not run[1] then return LEFT end
  local sent_epoch, sent_number = string.match(run[1], '^(%d+)%.(%d+)$')
  if sent_epoch ~= epoch then return LEFT end
  if tonumber(number) <= tonumber(sent_number) then return REPEATED end
  if run[2] ~= epoch or run[3] ~= 'running' then return LEFT end
  if tonumber(number) > tonumber(sent_number) + 1 then return GAP end
  return nil
end

-- Returns the first slot that holds another message, if one does; with `whole` also one that holds none.
local function first_difference(record, from, messages, whole)
  if #messages == 0 then return nil end
  local names = redis.call('HMGET', record, 'session_key', 'session_start')
  local start = tonumber(names[2]) + from
  local held = redis.call('LRANGE', names[1] .. ':messages', start, start + #messages - 1)
  for k, message in ipairs(held) do
    if message ~= messages[k] then return from + k - 1 end
  end
  if whole and #held < #messages then return from + #held end
  return nil
end

-- A slot is created once: the same content again is no change, other content is a divergence.
local function write_slots(record, from, messages)
  if #messages == 0 then return nil end
  local differs = first_difference(record, from, messages, false)
  if differs then return differs end
  local names = redis.call('HMGET', record, 'session_key', 'session_start')
  local list = names[1] .. ':messages'
  local held = redis.call('LLEN', list) - tonumber(names[2]) - from
  if held < 0 then return from end
  for k = held + 1, #messages do redis.call('RPUSH', list, messages[k]) end
  keep_session(names[1])
  return nil
end

local function owns_session(record)
  local names = redis.call('HMGET', record, 'session_key', 'id')
  return redis.call('HGET', names[1], 'owner') == names[2]
end

-- Where the arguments of `flush` end.
local function past(arguments)
  local at = 6
  for _ = 1, 2 do at = at + tonumber(arguments[at]) + 1 end
  return at + tonumber(arguments[at + 1]) + 2
end

-- A turn from which something was started stands in the journal up to and with the block that did it.
local function keep_part(record, turn, part, length)
  if turn == '' then return end
  local journal = record .. ':journal'
  local known = redis.call('HMGET', journal, turn, 'part:' .. turn)
  local before = string.match(known[2] or '0 ', '^(%d+) ')
  if not known[1] and tonumber(before) < tonumber(length) then
    redis.call('HSET', journal, 'part:' .. turn, length .. ' ' .. part)
  end
end

-- Returns a code, what it is about (first seq, or the slot that differs), and the next argument's place.
-- `more_count` and `more_events` are appended in the same entry.
local function flush(record, arguments, now, more_count, more_events)
  local count, events, digests = tonumber(arguments[3]), arguments[4], arguments[5]
  local opened, handed, messages, from, at
  opened, at = take(arguments, 6)
  handed, at = take(arguments, at)
  from = tonumber(arguments[at])
  messages, at = take(arguments, at + 1)
  local refused = refusal(record, arguments[1], arguments[2])
  -- One whose reply was lost is told again what it was told: a divergence has written nothing.
  local differed = refused == REPEATED and first_difference(record, from, messages, true)
  if differed then return DIVERGED, differed, at end
  if refused then return refused, 0, at end
  if #messages > 0 and not owns_session(record) then return LEFT, 0, at end
  redis.call('HSET', record, 'sent', arguments[1] .. '.' .. arguments[2])
  local differs = write_slots(record, from, messages)
  if differs then return DIVERGED, differs, at end
  local first = 0
  if count + more_count > 0 then
    first = append(record, count + more_count, joined(events, more_events), now)
  end
  if digests ~= '' then redis.call('RPUSH', record .. ':yields', string.format('%d:', first) .. digests) end
  for _, pair in ipairs(opened) do
    local index, key = string.match(pair, '^(%d+) (.*)$')
    redis.call('HSET', record, 'open:' .. key, string.format('%d', first + tonumber(index)))
  end
  for _, key in ipairs(handed) do redis.call('RPUSH', record .. ':handed', key) end
  return DONE, first, at
end
