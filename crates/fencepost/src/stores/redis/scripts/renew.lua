-- KEYS: locks. ARGV: owner and ttl of each.
-- Extends each lease to at least its TTL from now. Never shortens or revives a lease. Returns for each: 1 extended · 0 lost
local call = redis.call
local answers = {}
for at, lock in ipairs(KEYS) do
  -- A key that is not a string is no longer our lock. It must not affect the other leases in this call.
  local value = redis.pcall('GET', lock)
  local held = type(value) == 'string' and string.sub(value, 1, 32) == ARGV[at * 2 - 1]
  if held and call('PTTL', lock) < tonumber(ARGV[at * 2]) then call('PEXPIRE', lock, ARGV[at * 2]) end
  answers[at] = held and 1 or 0
end
return answers
