-- Replaces a record if it still has the version that the caller has seen. KEYS: record.
-- ARGV: the version seen, or '' if there was no record · the new "version data" · how long to keep it, in ms
-- Returns 1 if replaced, 0 if the version is another one
if ARGV[1] == '' then
  return redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) and 1 or 0
end
if redis.call('GETRANGE', KEYS[1], 0, 31) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
