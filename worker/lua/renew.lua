-- Renew all claims of a worker, and its own entry among the workers of its queues.
-- KEYS: the worker's record, queues set, then for each queue: queue, its workers
-- ARGV: worker id, lease in ms, how long the worker counts as there in ms, record, text of arq's
--   health check, for each queue its name, then for each claim: queue, job id, token
-- Returns {tokens of lost claims, tokens of claims whose job is to be aborted}
-- uses: queue
local worker, lease, there = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now, queues, lost, aborted = clock(), (#KEYS - 2) / 2, {}, {}
local oldest = string.format('%d', now - 60000)
-- The first write frees memory: so a server that is out of it refuses none of the others.
redis.call('ZREMRANGEBYSCORE', 'arq:abort', '-inf', '(' .. oldest)
for i = 6 + queues, #ARGV, 3 do
  local queue, id, token = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if not holds(queue, id, token) then
    lost[#lost + 1] = token
  else
    hold(queue, id, token, now, lease)
    if redis.call('ZSCORE', 'arq:abort', id) then aborted[#aborted + 1] = token end
  end
end
for at = 1, queues do
  local queue, workers = KEYS[1 + at * 2], KEYS[2 + at * 2]
  redis.call('ZREMRANGEBYSCORE', workers, '-inf', now)
  redis.call('ZADD', workers, string.format('%d', now + there), worker)
  redis.call('SET', queue .. ':health-check', ARGV[5], 'PX', there)
  redis.call('SADD', KEYS[2], ARGV[5 + at])
end
redis.call('SET', KEYS[1], ARGV[4], 'PX', there)
return { lost, aborted }
