-- Let a claim end early, as if its worker had died: who takes the job next knows that it failed.
-- KEYS: queue
-- ARGV: job id, token, how long it still lasts in ms
-- Returns 1, or 0 when the claim is not ours.
-- uses: queue
local queue, id = KEYS[1], ARGV[1]
if not holds(queue, id, ARGV[2]) then return 0 end
hold(queue, id, ARGV[2], clock(), tonumber(ARGV[3]))
return 1
