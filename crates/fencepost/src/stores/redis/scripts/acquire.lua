use(KEYS[1], KEYS[2])
floor, keep = tonumber(ARGV[8]), ARGV[9]
local owner, ttl, ticket, member = ARGV[1], ARGV[2], ARGV[5], ARGV[6]
local label = string.match(ARGV[3], '^%d+ %d+ (.*)$')
local every, length, live, stamp, channel = string.match(ARGV[7], '^(%d+) (%d+) (%d+) (%d+) (%S+)$')
if must_lift then lift() end
local function take()
  local epoch = next_epoch()
  put(owner, ' ', epoch, ttl, ttl, label)
  return epoch
end

local value = call('GET', lock)
-- '2' and '3': the owner has learned that it has the lock, and its guess was right.
if is_guessed(owner, value) and ARGV[4] < '2' then
  value = nil
  present = present - 1
end
local rest = value and 0 or resting(every, length)
if present == 0 and rest == 0 then return take() end

if is_of(owner, value) then
  extend(ttl)
  if member ~= '' then
    call('ZREM', line, member)
    call('HDEL', wait, owner)
  end
  if epoch_of(value) >= floor then return epoch_of(value) end
  -- The counter was lost since then, and the client that handed the lock on knew no higher epoch; the caller does.
  local epoch = next_epoch()
  put(owner, '+', epoch, call('PTTL', lock), ttl, label)
  return epoch
end

if member == '' then
  if not value and rest == 0 then
    local _, given = advance()
    if not given then return take() end
  end
  return {0, -3, rest}
end

local again = ticket ~= '0'
-- The ticket is in the future because the server's clock went back. Its owner would always be served last.
if not again or tonumber(ticket) > micros() then ticket = integer(micros()) end
if call('ZADD', line, 'NX', ticket, member) == 0 then
  again = true
  ticket = integer(call('ZSCORE', line, member))
end
if is_marked_by_waiters(value) then call('SETRANGE', lock, 32, '+') end
-- Nobody would read the record of a young entry, and it would be left behind.
if again and is_recorded(micros() - ticket, live) then
  local deadline = math.floor(micros() / 1000) + live
  call('HSET', wait, owner, string.format('%d %s %s', deadline, stamp, channel))
  call('PEXPIRE', wait, LINE_LIFE)
end
-- An existing line already has an expiry, which heartbeats extend.
local newcomer = present == 2 and not again
if not newcomer then call('PEXPIRE', line, LINE_LIFE) end
if not value and rest == 0 then
  local epoch = advance(member, ttl)
  if epoch then
    if again then call('HDEL', wait, owner) end
    return epoch
  end
end
return {ticket, newcomer and -3 or call('PTTL', lock), rest}
