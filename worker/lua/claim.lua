-- Take jobs from queues, in the order of the queues; in each, first those whose claim lapsed, so
-- that a dead worker's jobs never wait behind a backlog, then what is due.
-- KEYS: for each queue: queue, its workers
-- ARGV: worker id, lease in ms, number of the first token, free slots, '1' if lapsed claims may be
--   taken over, then for each queue: own claims, most that may be taken
-- Returns {jobs, ids without a payload, due jobs left, ms until the next may be taken or -1}; a job
--   is {position of its queue, id, payload, token, lapses, taken over, aborted, try, due}.
-- uses: queue
local LOOKED_AT, PAGE, ABORT_COUNTS, UNKNOWN_END, TRIES_KEPT = 256, 64, 60000, 60000, 88400000
local worker, lease, number = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local free, take_over = tonumber(ARGV[4]), ARGV[5] == '1'
local now, jobs, missing, left, later = clock(), {}, {}, 0, nil

local function take(at, id, due, taken_over)
  local queue = KEYS[at * 2 - 1]
  local payload = redis.call('GET', 'arq:job:' .. id)
  if not payload then
    release(queue, id)
    missing[#missing + 1] = id
    return 0
  end
  local token = string.format('%s:%d', worker, number)
  number = number + 1
  -- The first write: when the server is out of memory it is refused, and nothing is half done.
  hold(queue, id, token, now, lease)
  redis.call('HSET', queue .. ':tokens', id, token)
  redis.call('PERSIST', 'arq:job:' .. id)
  local lapses = taken_over and redis.call('HINCRBY', queue .. ':lapses', id, 1) or 0
  local try = redis.call('INCR', 'arq:retry:' .. id)
  redis.call('PEXPIRE', 'arq:retry:' .. id, TRIES_KEPT)
  local asked = redis.call('ZSCORE', 'arq:abort', id)
  local aborted = asked and tonumber(asked) >= now - ABORT_COUNTS
  jobs[#jobs + 1] = { at, id, payload, token, lapses, taken_over and 1 or 0, aborted and 1 or 0, try, due }
  free = free - 1
  return 1
end

-- When somebody else has the job: until when to pass it over.
local function taken_until(queue, id)
  local ends = redis.call('ZSCORE', queue .. ':claims', id)
  if ends then return math.max(tonumber(ends), now + 1000) end
  local lives = redis.call('PTTL', 'arq:in-progress:' .. id)
  if lives == -1 then return now + UNKNOWN_END end
  return lives > 0 and now + lives or nil
end

local function claim_lapsed(at, most)
  local queue, taken = KEYS[at * 2 - 1], 0
  if not take_over or most < 1 then return 0 end
  local lapsed = redis.call('ZRANGEBYSCORE', queue .. ':claims', '-inf', now, 'LIMIT', 0, most)
  for _, id in ipairs(lapsed) do
    taken = taken + take(at, id, redis.call('ZSCORE', queue, id) or now, true)
  end
  return taken
end

local function claim_due(at, most)
  local queue, looked = KEYS[at * 2 - 1], 0
  while most > 0 and looked < LOOKED_AT do
    local page = math.min(most, PAGE)
    local due = redis.call('ZRANGEBYSCORE', queue, '-inf', now, 'WITHSCORES', 'LIMIT', 0, page)
    if #due == 0 then return end
    for i = 1, #due, 2 do
      local other = taken_until(queue, due[i])
      if other then
        redis.call('ZADD', queue, string.format('%d', other), due[i])
      else
        most = most - take(at, due[i], due[i + 1], false)
      end
      looked = looked + 1
    end
  end
end

-- No worker takes more than its share while others are there to take theirs.
local function allowed(at, own, most)
  local queue = KEYS[at * 2 - 1]
  local all = redis.call('ZCOUNT', queue, '-inf', now)
    + redis.call('ZCOUNT', queue .. ':claims', '(' .. string.format('%d', now), '+inf')
  local workers = math.max(1, redis.call('ZCOUNT', KEYS[at * 2], now, '+inf'))
  return math.min(free, most, math.max(1, math.ceil(all / workers) - own))
end

for at = 1, #KEYS / 2 do
  local queue, most = KEYS[at * 2 - 1], tonumber(ARGV[5 + at * 2])
  local share = allowed(at, tonumber(ARGV[4 + at * 2]), most)
  claim_due(at, share - claim_lapsed(at, share))
  local due = redis.call('ZCOUNT', queue, '-inf', now)
  if due == 0 then
    redis.call('DEL', queue .. ':wake')
    local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
    if first[2] then later = math.min(later or math.huge, tonumber(first[2]) - now) end
  elseif most > 0 then
    left = left + due
  end
end
return { jobs, missing, left, later or -1 }
