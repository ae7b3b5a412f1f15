-- Bring a run that this pass owns to its terminal status, once. The terminal event is the last of the
-- flush.
-- KEYS: record
-- ARGV: as `flush`, then status, pairs of fields
-- Returns {code, first seq or slot, keys of calls that run on for a moment}.
-- uses: queue log flush run
local record, now = KEYS[1], clock()
local code, about, at = flush(record, ARGV, now, 0, '')
if code ~= DONE then return { code, about, {} } end
local fields = {}
for i = at + 1, #ARGV do fields[#fields + 1] = ARGV[i] end
local stopping = settle(record, now, ARGV[at], fields)
return { code, about, stopping }
