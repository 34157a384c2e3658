-- Makes each lease last at least its TTL from now, and takes the key where it is missing.
-- KEYS: lock and counter of each. ARGV: seconds the server must have been up for to give keys · ms for which counters are kept, and of each:
--   owner · ttl · epoch, which a missing key is taken for; '0' = it is not · only keys from that moment or before vote; '' = all do
--   · "ttl since label" of a key that is taken
-- Returns for each: 1 extended · 2 it is there now, but was not when the lease was last known to be whole: it does not vote yet · 0 lost
local is_grown = ARGV[1] == '0'
if not is_grown then
  local info = pcall('INFO', 'server')
  local up = type(info) == 'string' and string.match(info, 'uptime_in_seconds:(%d+)')
  -- See lock.lua.
  is_grown = up and tonumber(up) > tonumber(ARGV[1])
end

-- Whether the key was taken. Where a larger count was drawn somebody else may have held the lock meanwhile.
local function take(lock, counter, owner, ttl, epoch, tail)
  local count = last(counter)
  if not count or count > epoch then return false end
  -- A counter that is gone may have been larger. The key gets a count that is not the epoch, also where the clock is behind: it is not taken
  -- for one that was there from the start.
  count = count < LIFTED and math.max(epoch + 1, lifted()) or epoch
  if keep(counter, count, ARGV[2]) then return false end
  local answer = pcall('SET', lock, string.format('%s %d %s', owner, count, tail), 'PX', ttl)
  return not answer.err
end

local answers = {}
for at = 1, #KEYS / 2 do
  local lock, counter = KEYS[at * 2 - 1], KEYS[at * 2]
  local owner, ttl, epoch, confirmed, tail = unpack(ARGV, at * 5 - 2, at * 5 + 2)
  -- What is no string is no lock of ours any more; the others in this call must not suffer from it.
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
