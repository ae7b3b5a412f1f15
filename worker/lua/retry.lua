-- Give a claimed job back to its queue, to be taken again later.
-- KEYS: queue
-- ARGV: job id, token, delay in ms, due before the claim or '' (keeps the job's place), '1' if the
--   try counts, for how long in ms it may be given back like this ('0': for ever)
-- Returns 1 given back, 0 the claim is not ours, 2 it was given back for too long: nothing is done.
-- uses: queue
local queue, id, delay = KEYS[1], ARGV[1], tonumber(ARGV[3])
if not holds(queue, id, ARGV[2]) then return 0 end
local now, patience = clock(), tonumber(ARGV[6])
if patience > 0 then
  local noted = queue .. ':unknown:' .. id
  redis.call('SET', noted, string.format('%d', now), 'PX', patience * 2, 'NX')
  if now - tonumber(redis.call('GET', noted)) >= patience then return 2 end
end
unclaim(queue, id)
local due = now + delay
if ARGV[4] ~= '' then due = math.min(due, tonumber(ARGV[4])) end
redis.call('ZADD', queue, string.format('%d', due), id)
if ARGV[5] == '1' then
  redis.call('PEXPIRE', 'arq:retry:' .. id, delay + 88400000)
elseif redis.call('EXISTS', 'arq:retry:' .. id) == 1 then
  redis.call('DECR', 'arq:retry:' .. id)
end
if due <= now then wake(queue) end
return 1
