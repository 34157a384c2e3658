-- KEYS: locks. ARGV: owner and ttl of each.
-- Makes each lease last at least its TTL from now; never shortens, never revives. Returns for each: 1 extended · 0 lost
local call = redis.call
local answers = {}
for at, lock in ipairs(KEYS) do
  -- What is no string is no lock of ours any more; the others in this call must not suffer from it.
  local value = redis.pcall('GET', lock)
  local held = type(value) == 'string' and string.sub(value, 1, 32) == ARGV[at * 2 - 1]
  if held and call('PTTL', lock) < tonumber(ARGV[at * 2]) then call('PEXPIRE', lock, ARGV[at * 2]) end
  answers[at] = held and 1 or 0
end
return answers
