-- End a claimed job.
-- KEYS: queue
-- ARGV: job id, token, result or '', how long the result is kept in ms
-- Returns 1, or 0 when the claim is not ours.
-- uses: queue
local queue, id = KEYS[1], ARGV[1]
if not holds(queue, id, ARGV[2]) then return 0 end
release(queue, id)
if ARGV[3] ~= '' then redis.call('SET', 'arq:result:' .. id, ARGV[3], 'PX', ARGV[4]) end
return 1
