-- Close the hooks and end the sleeps whose time is over: their runs go on.
-- KEYS: timers
-- ARGV: how many runs at most
-- Returns how many runs there were.
-- uses: queue log run hooks
local now = clock()
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now), 'LIMIT', 0, ARGV[1])
for _, record in ipairs(due) do
  local soonest = close_due_hooks(record, now)
  if soonest then
    redis.call('ZADD', KEYS[1], string.format('%d', soonest), record)
  else
    redis.call('ZREM', KEYS[1], record)
  end
end
return #due
