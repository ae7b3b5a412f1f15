-- Bring a run that this pass owns to its terminal status, once. The terminal event is the last of the
-- flush.
-- KEYS: record
-- ARGV: as `flush`, then status, 1 when what was said to it may stay untaken else 0, pairs of fields
-- Returns {code, first seq or slot, keys of calls that run on for a moment}. `GO_ON`, and nothing is
--   done, when somebody has said something to a run that would be complete.
-- uses: queue log flush run
local record, now = KEYS[1], clock()
local status = past(ARGV)
local is_steered = ARGV[status] == 'completed' and ARGV[status + 1] == '0' and redis.call('LLEN', record .. ':steers') > 0
if is_steered and fenced(record, ARGV[1]) then return { GO_ON, 0, {} } end
local code, about, at = flush(record, ARGV, now, 0, '')
if code ~= DONE then return { code, about, {} } end
local fields = {}
for i = at + 2, #ARGV do fields[#fields + 1] = ARGV[i] end
local stopping = settle(record, now, ARGV[at], fields)
return { code, about, stopping }
