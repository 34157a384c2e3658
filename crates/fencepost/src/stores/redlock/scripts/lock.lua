-- Takes the lock's key on this server, and draws a count for it.
-- KEYS: lock counter. ARGV: owner · ttl · "ttl since label" · 1 when the count is to be lifted to the server's time
--   · a key of this owner from that moment or before counts as released; '' = none does · seconds the server must have been up for
--   · ms for which the counter is kept · the last epoch that the asker has seen, which a counter that is gone must pass
-- Returns the count: the key is the owner's · the count, negative: it was before · {ms until it ends (−1 no expiry)}: it is somebody else's · {−3, seconds}: up for so long only
local lock, counter, owner, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if ARGV[6] ~= '0' then
  local up = tonumber(string.match(call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
  -- The difference of two times of day, each cut to a whole second: it says n from n - 1 s on.
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
-- A new name, or one that the server has forgotten.
if count < LIFTED then count = math.max(count, lifted(), ARGV[8] + 1) end
if ARGV[4] == '1' then count = math.max(count, lifted()) end
problem = keep(counter, count, ARGV[7])
if problem then return problem end
call('SET', lock, string.format('%s %d %s', owner, count, ARGV[3]), 'PX', ttl)
return count
