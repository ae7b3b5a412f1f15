-- Shared by the scripts that begin and end a call of a tool of limited concurrency. Needs `queue`.
-- A gate is a hash: job id -> queue and token of each claim that performs a call; `<gate>:line` is a
-- sorted set of those that wait, `<queue> <job>` by the time at which they came first.

local GATE_KEPT, LOOKS_AGAIN, LOOKS_AT_LAST = 604800000, 1000, 60000

-- A claim that is gone performs nothing any more.
local function performing(gate)
  local all, count = redis.call('HGETALL', gate), 0
  for i = 1, #all, 2 do
    local queue, token = string.match(all[i + 1], '^(%S+) (%S+)$')
    if holds(queue, all[i], token) then count = count + 1 else redis.call('HDEL', gate, all[i]) end
  end
  return count
end

-- The job goes through its gate; or it gives its claim up and stands in line. Those at the front of it
-- look again soon, in case nobody calls them.
local function goes_through(told, queue, job, token, now)
  local most, gate = string.match(told, '^(%d+) (.*)$')
  local line, name = gate .. ':line', queue .. ' ' .. job
  if redis.call('HEXISTS', gate, job) == 1 or performing(gate) < tonumber(most) then
    redis.call('HSET', gate, job, queue .. ' ' .. token)
    redis.call('PEXPIRE', gate, GATE_KEPT)
    redis.call('ZREM', line, name)
    return true
  end
  redis.call('ZADD', line, 'NX', now, name)
  redis.call('PEXPIRE', line, GATE_KEPT)
  local turns = math.floor(redis.call('ZRANK', line, name) / tonumber(most)) + 1
  -- The claim goes and what is counted of the job's lost workers stays.
  redis.call('HDEL', queue .. ':tokens', job)
  redis.call('ZREM', queue .. ':claims', job)
  redis.call('DEL', 'arq:in-progress:' .. job)
  redis.call('ZADD', queue, string.format('%d', now + math.min(turns * LOOKS_AGAIN, LOOKS_AT_LAST)), job)
  return false
end

-- The job is through, and the first in line is called.
local function leave_gate(told, job, now)
  local gate = string.match(told, '^%d+ (.*)$')
  redis.call('HDEL', gate, job)
  while true do
    local first = redis.call('ZPOPMIN', gate .. ':line')[1]
    if not first then return end
    local queue, waits = string.match(first, '^(%S+) (.*)$')
    if redis.call('ZSCORE', queue, waits) and not redis.call('HGET', queue .. ':tokens', waits) then
      redis.call('ZADD', queue, string.format('%d', now), waits)
      return wake(queue)
    end
  end
end
