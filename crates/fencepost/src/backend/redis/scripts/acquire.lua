-- ARGV: owner ttl label member ticket live stamp channel every length
--   member '' = try: never enqueues, never overtakes.   ticket '0' = first time.
-- Returns {1, epoch} granted for ttl · {0, ticket, ms until the lock ends (−1 no expiry, −2 free, −3 not told), ms of gap left}
use(1)
local owner, ttl, label, member, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local present = call('EXISTS', lock, line)
local rest = 0
if present == 0 then
  rest = resting(ARGV[9], ARGV[10])
  if rest == 0 then return {1, take(owner, ttl, ttl, label)} end
end

local value = call('GET', lock)
if is_of(owner, value) then
  extend(ttl)
  if member ~= '' then
    call('ZREM', line, member)
    call('HDEL', wait, owner)
  end
  return {1, epoch_of(value)}
end
if not value then rest = resting(ARGV[9], ARGV[10]) end

if member == '' then
  if not value and rest == 0 then
    local _, given = advance('', 0)
    if not given then return {1, take(owner, ttl, ttl, label)} end
  end
  return {0, '0', -3, rest}
end

local again = ticket ~= '0'
if not again then ticket = integer(micros()) end
if call('ZADD', line, 'NX', ticket, member) == 0 then again = true end
if again then
  call('HSET', wait, owner, integer(math.floor(micros() / 1000) + ARGV[6]) .. ' ' .. ARGV[7] .. ' ' .. ARGV[8])
  call('PEXPIRE', wait, LINE_LIFE)
end
-- Who finds a line finds it with an expiry, which beats move on.
local newcomer = present == 2 and not again
if not newcomer then call('PEXPIRE', line, LINE_LIFE) end
if not value and rest == 0 then
  local epoch = advance(member, ttl)
  if epoch then return {1, epoch} end
end
return {0, ticket, newcomer and -3 or call('PTTL', lock), rest}
