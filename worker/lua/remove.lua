-- Take a job from its queue, unless somebody works on it.
-- KEYS: queue
-- ARGV: job id
-- Returns 1, or 0 when it is not there or is claimed.
-- uses: queue
local queue, id = KEYS[1], ARGV[1]
local ends = redis.call('ZSCORE', queue .. ':claims', id)
if ends and tonumber(ends) > clock() then return 0 end
local there = redis.call('EXISTS', 'arq:job:' .. id)
release(queue, id)
return there
