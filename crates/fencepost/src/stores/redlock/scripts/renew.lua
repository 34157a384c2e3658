-- Extends each lease to at least its TTL from now, and creates missing keys.
-- KEYS: lock and counter of each lease. ARGV: how many seconds the server must have been up to grant keys · ms for which counters are
--   kept, and for each lease: owner · ttl · epoch for which a missing key is created, '0' = do not create it · only keys of that moment or
--   before vote, '' = all vote · "ttl since label" of a key that is created
-- Returns for each: 1 extended · 2 the key exists now, but did not when the lease was last confirmed, so it does not vote yet · 0 lost
local is_grown = ARGV[1] == '0'
if not is_grown then
  local info = pcall('INFO', 'server')
  local up = type(info) == 'string' and string.match(info, 'uptime_in_seconds:(%d+)')
  -- See lock.lua.
  is_grown = up and tonumber(up) > tonumber(ARGV[1])
end

-- Creates the key, and returns whether it did. If a larger count was drawn, somebody else may have held the lock in the meantime.
local function take(lock, counter, owner, ttl, epoch, tail)
  local count = last(counter)
  if not count or count > epoch then return false end
  -- A lost counter may have been larger. The key gets a count that differs from the epoch, even if the clock is behind, so that it is not
  -- mistaken for a key that existed from the start.
  count = count < LIFTED and math.max(epoch + 1, lifted()) or epoch
  if keep(counter, count, ARGV[2]) then return false end
  local answer = pcall('SET', lock, string.format('%s %d %s', owner, count, tail), 'PX', ttl)
  return not answer.err
end

local answers = {}
for at = 1, #KEYS / 2 do
  local lock, counter = KEYS[at * 2 - 1], KEYS[at * 2]
  local owner, ttl, epoch, confirmed, tail = unpack(ARGV, at * 5 - 2, at * 5 + 2)
  -- A key that is not a string is no longer our lock. It must not affect the other leases in this call.
  local value = pcall('GET', lock)
  local answer = 0
  if type(value) == 'string' and string.sub(value, 1, 32) == owner then
    if call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
    local since = string.match(value, '^%x+ %d+ %d+ (%d+) ')
    answer = (confirmed == '' or tonumber(since) <= tonumber(confirmed)) and 1 or 2
  elseif not value and epoch ~= '0' and is_grown and take(lock, counter, owner, ttl, tonumber(epoch), tail) then
    answer = 2
  end
  answers[at] = answer
end
return answers
