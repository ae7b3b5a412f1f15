-- Ask the outside, once: the hook, its place among the open ones and its end, with `hook.opened`.
-- From here on the turn of the call that waits is never asked again.
-- KEYS: record
-- ARGV: as `flush`, then hook key, turn key or '', part of the turn, its length in events, label or ''
--   for a sleep, ms until it ends, what its events tell, about (JSON), `hook.opened` event or ''
-- Returns {code, first seq or slot, answer or false}.
-- uses: queue log flush run hooks
local record, now, last = KEYS[1], clock(), #ARGV
local hooks, key, opened = record .. ':hooks', ARGV[last - 8], ARGV[last]
local is_known = redis.call('HEXISTS', hooks, key .. '|state') == 1
local is_new = not is_known and opened ~= ''
local code, about = flush(record, ARGV, now, is_new and 1 or 0, is_new and opened or '')
if code ~= DONE and not (code == REPEATED and fenced(record, ARGV[1])) then return { code, about, false } end
keep_part(record, ARGV[last - 7], ARGV[last - 6], ARGV[last - 5])
if not is_known then
  open_hook(record, now, key, ARGV[last - 4], ARGV[last - 2], now + tonumber(ARGV[last - 3]), ARGV[last - 1])
  redis.call('HSET', record, 'poison', 0)
  if is_new then tell_above(record, now, opened) end
end
expire_live(record, now, { ':journal', ':hooks', unpack(FLUSHED) })
return { code, about, redis.call('HGET', hooks, key .. '|answer') }
