-- Start a run of another agent, once: the run, and its place among what this one waits for.
-- KEYS: record
-- ARGV: as `flush`, then key of the child, `child.started` event, n and the keys of `create_run`, n and
--   its arguments, then what `carry` takes
-- Returns {code, first seq or slot, answer or false}.
-- uses: queue log flush run new_run
local record, now, hooks = KEYS[1], clock(), KEYS[1] .. ':hooks'
local at = past(ARGV)
local key = ARGV[at]
local is_known = redis.call('HEXISTS', hooks, key .. '|state') == 1
local code, about = flush(record, ARGV, now, is_known and 0 or 1, is_known and '' or ARGV[at + 1])
if code ~= DONE and not (code == REPEATED and fenced(record, ARGV[1])) then return { code, about, false } end
if not is_known then
  local names, given
  names, at = take(ARGV, at + 2)
  given, at = take(ARGV, at)
  redis.call('HSET', hooks, key .. '|state', 'open', key .. '|told', '', key .. '|about', given[1], key .. '|ends', NEVER)
  make_run(names, given, now)
  carry(names[1], ARGV, at, now)
  redis.call('HSET', record, 'poison', 0)
end
expire_live(record, now, { ':hooks', unpack(FLUSHED) })
return { code, about, redis.call('HGET', hooks, key .. '|answer') }
