-- Shared by every script that changes a queue. A queue's keys are made from its first one:
-- <queue>:claims, <queue>:tokens, <queue>:lapses, <queue>:wake, <queue>:unknown:<job id>.

local WAKE_LIMIT = 1024

-- Redis' clock is the only clock: milliseconds since the epoch.
local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- A counted list among arguments: returns it, and the place after it.
local function take(arguments, at)
  local count, taken = tonumber(arguments[at]), {}
  for i = 1, count do taken[i] = arguments[at + i] end
  return taken, at + count + 1
end

-- A wake token names no job; the list is capped, since sleepers need no more tokens than there are.
local function wake(queue)
  local tokens = redis.call('LPUSH', queue .. ':wake', '1')
  if tokens == 1 then redis.call('PEXPIRE', queue .. ':wake', 60000) end
  if tokens > WAKE_LIMIT then redis.call('LTRIM', queue .. ':wake', 0, WAKE_LIMIT - 1) end
end

-- The claim lasts until `ends`. The queue's score and arq's key say the same to arq's tools.
local function hold(queue, id, token, now, lease)
  local ends = string.format('%d', now + lease)
  redis.call('ZADD', queue, ends, id)
  redis.call('ZADD', queue .. ':claims', ends, id)
  redis.call('SET', 'arq:in-progress:' .. id, token, 'PX', lease)
end

local function enqueue(queue, id, payload, due, now)
  redis.call('SET', 'arq:job:' .. id, payload)
  redis.call('ZADD', queue, due, id)
  if due <= now then wake(queue) end
end

-- Whoever shows this token owns the job, also when its lease is over and nobody took it.
local function holds(queue, id, token)
  return redis.call('HGET', queue .. ':tokens', id) == token
end

-- The claim is gone, the job stays; further keys go with the claim's.
local function unclaim(queue, id, ...)
  redis.call('HDEL', queue .. ':tokens', id)
  redis.call('HDEL', queue .. ':lapses', id)
  redis.call('ZREM', queue .. ':claims', id)
  redis.call('DEL', 'arq:in-progress:' .. id, ...)
end

-- The job is gone, with its claim.
local function release(queue, id)
  unclaim(queue, id, 'arq:job:' .. id, 'arq:retry:' .. id, queue .. ':unknown:' .. id)
  redis.call('ZREM', queue, id)
  redis.call('ZREM', 'arq:abort', id)
end
