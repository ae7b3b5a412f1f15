-- Give back what a claim took whose reply was lost: nobody has begun any of it, and nobody will.
-- KEYS: queues
-- ARGV: worker id, first and last number of the tokens that the claim may have given out
-- Returns how many jobs were given back.
-- uses: queue
local first, last, count, now = tonumber(ARGV[2]), tonumber(ARGV[3]), 0, clock()
for _, queue in ipairs(KEYS) do
  local tokens = redis.call('HGETALL', queue .. ':tokens')
  for i = 1, #tokens, 2 do
    local worker, number = string.match(tokens[i + 1], '^(.*):(%d+)$')
    number = tonumber(number or -1)
    if worker == ARGV[1] and number >= first and number <= last then
      redis.call('ZREM', queue .. ':claims', tokens[i])
      redis.call('HDEL', queue .. ':tokens', tokens[i])
      redis.call('DEL', 'arq:in-progress:' .. tokens[i])
      redis.call('ZADD', queue, string.format('%d', now), tokens[i])
      redis.call('DECR', 'arq:retry:' .. tokens[i])
      wake(queue)
      count = count + 1
    end
  end
end
return count
