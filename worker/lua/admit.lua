-- Let a model be asked, within what its provider allows a minute, and not while its key pauses.
-- KEYS: account, window, providers
-- ARGV: member of `providers`, requests a minute or 0, tokens a minute or 0, tokens that it takes
-- Returns {ms to wait, 0 to go ahead; now in ms; 1 when a pause is why}.
-- uses: queue
local MINUTE, KEPT, DAY = 60, 120000, 86400000
-- After a pause those who waited come back by twos, fours, eights a second: else they would all be
-- turned away again.
local SLOW_SECONDS = 10
local account, window = KEYS[1], KEYS[2]
local most_requests, most_tokens, takes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now = clock()
local second = math.floor(now / 1000)
redis.call('ZADD', KEYS[3], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - DAY)
redis.call('PEXPIRE', KEYS[3], DAY)

local pause = redis.call('HMGET', account, 'until', 'given')
local ends, given = tonumber(pause[1] or 0), tonumber(pause[2] or 0)
if ends > now then return { ends - now, now, 1 } end
local since = now - ends
local is_slow = since < SLOW_SECONDS * 1000
if is_slow and given >= 2 ^ (math.floor(since / 1000) + 1) then return { 1000 - since % 1000, now, 1 } end

local requests, tokens, first = 0, 0, second
local counts = redis.call('HGETALL', window)
for i = 1, #counts, 2 do
  local at = tonumber(string.sub(counts[i], 2))
  if at < second - MINUTE then
    redis.call('HDEL', window, counts[i])
  else
    first = math.min(first, at)
    if string.sub(counts[i], 1, 1) == 'r' then
      requests = requests + tonumber(counts[i + 1])
    else
      tokens = tokens + tonumber(counts[i + 1])
    end
  end
end
local is_full = most_requests > 0 and requests >= most_requests
-- A request that is larger than all that a minute allows goes when nothing else does.
local is_heavy = most_tokens > 0 and tokens > 0 and tokens + takes > most_tokens
if is_full or is_heavy then return { (first + MINUTE + 1) * 1000 - now, now, 0 } end
if is_slow then redis.call('HINCRBY', account, 'given', 1) end
redis.call('HINCRBY', window, string.format('r%d', second), 1)
if takes > 0 then redis.call('HINCRBY', window, string.format('t%d', second), takes) end
redis.call('PEXPIRE', window, KEPT)
return { 0, now, 0 }
