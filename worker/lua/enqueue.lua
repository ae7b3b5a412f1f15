-- Put a job on a queue, unless its id is taken by a job, a claim or a result that is kept.
-- KEYS: queue, queues set
-- ARGV: job id, payload, delay in ms, queue name
-- Returns 1, or 0 when the id is taken.
-- uses: queue
local queue, id = KEYS[1], ARGV[1]
if redis.call('EXISTS', 'arq:job:' .. id, 'arq:result:' .. id) > 0 then return 0 end
if redis.call('HEXISTS', queue .. ':tokens', id) == 1 then return 0 end
local now = clock()
enqueue(queue, id, ARGV[2], now + tonumber(ARGV[3]), now)
redis.call('DEL', 'arq:retry:' .. id)
redis.call('SADD', KEYS[2], ARGV[4])
return 1
