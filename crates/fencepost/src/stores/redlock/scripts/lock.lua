-- Takes the lock's key on this server, and draws a count for it.
-- KEYS: lock counter. ARGV: owner · ttl · "ttl since label" · 1 if the count must be lifted to the server's time
--   · a key of this owner from that moment or before counts as released, '' = no key does · how many seconds the server must have been up
--   · ms for which the counter is kept · the last epoch that the caller has seen, which a lost counter must pass
-- Returns the count, if the owner has the key · the negative count, if it had the key before · {ms until it ends (−1 no expiry)}, if
--   somebody else has it · {−3, seconds}, if the server has been up for only that long
local lock, counter, owner, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if ARGV[6] ~= '0' then
  local up = tonumber(string.match(call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
  -- This is the difference of two times of day, each rounded down to seconds, so it shows n already after n - 1 s.
  if up <= tonumber(ARGV[6]) then return {-3, up} end
end
local value = call('GET', lock)
if value then
  if string.sub(value, 1, 32) ~= owner then return {call('PTTL', lock)} end
  local count, since = string.match(value, '^%x+ (%d+) %d+ (%d+) ')
  if ARGV[5] == '' or tonumber(since) > tonumber(ARGV[5]) then
    if call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
    return -tonumber(count)
  end
end
local count, problem = last(counter)
if problem then return problem end
count = count + 1
-- The name is new, or the server has forgotten it.
if count < LIFTED then count = math.max(count, lifted(), ARGV[8] + 1) end
if ARGV[4] == '1' then count = math.max(count, lifted()) end
problem = keep(counter, count, ARGV[7])
if problem then return problem end
call('SET', lock, string.format('%s %d %s', owner, count, ARGV[3]), 'PX', ttl)
return count
