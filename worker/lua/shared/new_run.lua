-- Shared by the scripts that make a run. Needs `queue`, `log` and `run`.
-- `keys` and `given` are the keys and arguments of `create_run`, from wherever they come.

-- The record's fields, by name.
local function fields_of(given)
  local named = {}
  for i = 13, #given, 2 do named[given[i]] = given[i + 1] end
  return named
end

-- When the same request came before: how it is to be answered, and the run that it made.
local function asked_before(keys, given)
  local before = keys[3] ~= '' and redis.call('GET', keys[3])
  if not before then return nil end
  local digest, run = string.match(before, '^(%S+) (%S+)$')
  -- The answer is void once its run is there no more: whoever asks again wants one that is.
  if redis.call('EXISTS', fields_of(given).run_base .. run) == 0 then return nil end
  return digest == given[5] and 2 or 3, run
end

-- What a run takes over from an earlier one: pairs of fields of the journal, of the ledger and of the
-- hooks, and the order of hand-over; each list is counted.
local function carry(record, arguments, at, now)
  for _, part in ipairs({ ':journal', ':calls', ':hooks', ':handed' }) do
    local carried
    carried, at = take(arguments, at)
    if part == ':handed' then
      for _, key in ipairs(carried) do redis.call('RPUSH', record .. part, key) end
    else
      for i = 1, #carried, 2 do redis.call('HSET', record .. part, carried[i], carried[i + 1]) end
    end
  end
  expire_live(record, now, PARTS)
end

-- The run's record, its log, its places in the indexes, and its queue entry: or its place in the line
-- of a session that `owner` has, which may be the first.
local function make_run(keys, given, now, owner, goes_first)
  local record, session, run_id, session_id = keys[1], keys[2], given[1], given[2]
  local stamp, fields, named = string.format('%d', now), {}, fields_of(given)
  for i = 13, #given do fields[#fields + 1] = given[i] end
  if redis.call('EXISTS', session) == 0 then
    redis.call('HSET', session, 'id', session_id, 'created', stamp, 'metadata', given[10])
  end
  local ordinal = redis.call('RPUSH', session .. ':runs', run_id)
  redis.call('HSET', record, 'status', 'queued', 'created', stamp, 'attempt', 0, 'epoch', 0, 'last_seq', 0,
    'log_bytes', 0, 'poison', 0, 'lapses', 0, 'ran', 0, 'ordinal', ordinal, 'session_key', session,
    'start_by', string.format('%d', now + tonumber(named.patience)), unpack(fields))
  redis.call('SET', record .. ':input', given[11])
  append(record, 1, given[7], now)
  expire_live(record, now, PARTS)
  redis.call('ZADD', keys[4], stamp, run_id)
  -- A session that goes with its run is not listed.
  if not named.content_retention then redis.call('ZADD', keys[5], stamp, session_id) end
  redis.call('SADD', keys[6], given[8])
  redis.call('SADD', keys[7], given[12])
  redis.call('HSET', session, 'used', stamp, 'retention', given[9])
  if owner then
    redis.call(goes_first and 'LPUSH' or 'RPUSH', session .. ':queue', run_id)
  else
    redis.call('HSET', session, 'owner', run_id)
    enqueue_run(record, now, now)
  end
  keep_session(session)
  if keys[3] ~= '' then redis.call('SET', keys[3], given[5] .. ' ' .. run_id, 'PX', given[6]) end
end
