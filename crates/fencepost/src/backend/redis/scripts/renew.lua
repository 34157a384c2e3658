-- Makes each lease last at least its TTL from now; never shortens, never revives. ARGV: owner and ttl for each of KEYS.
-- Returns for each: 1 extended · 0 lost
local answers = {}
for at, lock in ipairs(KEYS) do
  local owner, ttl = ARGV[at * 2 - 1], ARGV[at * 2]
  local value = redis.call('GET', lock)
  if value and string.sub(value, 1, 33) == owner .. ' ' then
    if redis.call('PTTL', lock) < tonumber(ttl) then redis.call('PEXPIRE', lock, ttl) end
    answers[at] = 1
  else
    answers[at] = 0
  end
end
return answers
