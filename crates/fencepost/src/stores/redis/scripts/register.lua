-- KEYS: value gate. ARGV: epoch seq owner, and the new value for a write.
-- Returns {0, highest fence}, if refused · {1, value}, if read · {1}, if written or if there is no value
local highest = admit(KEYS[2], ARGV[1], ARGV[2], ARGV[3])
if highest then return {0, highest} end
if ARGV[4] then
  redis.call('SET', KEYS[1], ARGV[4])
  return {1}
end
local value = redis.call('GET', KEYS[1])
return value and {1, value} or {1}
