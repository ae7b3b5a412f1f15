-- Read what a run keeps of a child.
-- KEYS: record
-- ARGV: key of the child, name of the field
-- Returns its value, or ''.
return redis.call('HGET', KEYS[1] .. ':hooks', ARGV[1] .. '|' .. ARGV[2]) or ''
