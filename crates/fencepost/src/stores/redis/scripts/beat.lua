-- KEYS: lock line of each entry. ARGV: stamp channel every length keep, then for each entry: owner member waiter_lease live, and the
--   highest epoch of the name that the caller knows
-- Heartbeats of waiters; never creates an entry. Returns for each: the epoch, if granted for at least waiter_lease · 0 if not in line
--   · {ms until the lock ends (−1 no expiry, −2 free), rank, 1 if a plain client holds it, ms of gap left}, if it has to keep waiting
local function beat(owner, member, waiter_lease, live)
  local value = redis.pcall('GET', lock)
  -- If another type of key has taken the name, its waiters ask for themselves and get the error; the others keep waiting.
  if type(value) == 'table' then return 0 end
  if is_guessed(owner, value) then return 0 end
  if is_of(owner, value) then
    extend(waiter_lease)
    return epoch_of(value)
  end
  local ticket = call('ZSCORE', line, member)
  if not ticket then return 0 end
  local waited = micros() - ticket
  if waited < 0 then bring_back() end
  if is_recorded(waited, live) then
    local deadline = math.floor(micros() / 1000) + live
    call('HSET', wait, owner, string.format('%d %s %s', deadline, ARGV[1], ARGV[2]))
    call('PEXPIRE', wait, LINE_LIFE)
  end
  call('PEXPIRE', line, LINE_LIFE)
  local rest = value and 0 or resting(ARGV[3], ARGV[4])
  local epoch = not value and rest == 0 and advance(member, waiter_lease)
  if epoch then return epoch end
  local plain = value and not epoch_of(value) and 1 or 0
  local rank = call('ZRANK', line, member) or 0
  -- Each entry checks the one ahead of it, and the first checks the last, so that no dead entry stays in line while the lock is held.
  if rank > 0 then rank = rank - bury(rank - 1) else bury(-1) end
  return {call('PTTL', lock), rank, plain, rest}
end

local answers = {}
for entry = 0, #KEYS / 2 - 1 do
  use(KEYS[entry * 2 + 1], KEYS[entry * 2 + 2])
  local at = 6 + entry * 5
  floor, keep = tonumber(ARGV[at + 4]), ARGV[5]
  answers[#answers + 1] = beat(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
end
return answers
