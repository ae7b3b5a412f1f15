-- Say something to a run that has not ended: it takes it in before its next turn.
-- KEYS: record, idempotency key or ''
-- ARGV: body digest, idempotency ttl in ms, run id, most messages that may wait, messages
-- Returns {code, text}: 1 said (its id), 2 the same request came before (its run), 3 another body
--   under this key (its run), 5 too many wait already, 0 it has ended (its status), -1 there is no such run.
-- uses: queue log run
local record, seen, now = KEYS[1], KEYS[2], clock()
local before = seen ~= '' and redis.call('GET', seen)
if before then
  local digest, run = string.match(before, '^(%S+) (%S+)$')
  return { digest == ARGV[1] and 2 or 3, run }
end
local status, steers = redis.call('HGET', record, 'status'), record .. ':steers'
if not status then return { -1, '' } end
if TERMINAL[status] then return { 0, status } end
if redis.call('LLEN', steers) + #ARGV - 5 >= tonumber(ARGV[4]) then return { 5, '' } end
redis.call('RPUSH', steers, unpack(ARGV, 5))
if seen ~= '' then redis.call('SET', seen, ARGV[1] .. ' ' .. ARGV[3], 'PX', ARGV[2]) end
nudge(record, 'steer', '', redis.call('HINCRBY', record, 'said', #ARGV - 4))
expire_live(record, now, { ':steers' })
return { 1, ARGV[3] }
