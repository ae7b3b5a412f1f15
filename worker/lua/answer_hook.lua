-- Close an open hook: it is answered, or cancelled; once.
-- KEYS: record
-- ARGV: key of the hook, state (resolved or cancelled), answer, what its event tells besides
-- Returns {code, state}: 1 closed, 0 it was closed before, -1 there is no such run, -2 no such hook.
-- uses: queue log run hooks
local record, now, hooks, key = KEYS[1], clock(), KEYS[1] .. ':hooks', ARGV[1]
if redis.call('EXISTS', record) == 0 then return { -1, '' } end
local state = redis.call('HGET', hooks, key .. '|state')
if not state then return { -2, '' } end
if state ~= 'open' then return { 0, state } end
if tonumber(redis.call('HGET', hooks, key .. '|ends')) <= now then
  close_hook(record, now, key, 'expired', EXPIRED, '')
  return { 0, 'expired' }
end
close_hook(record, now, key, ARGV[2], ARGV[3], ARGV[4])
expire_live(record, now, {})
return { 1, ARGV[2] }
