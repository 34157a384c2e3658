-- Signs of life of those who wait. Never creates an entry.
-- ARGV: stamp channel every length, then for each entry: owner member claim live
-- Returns for each: {1, epoch} granted for at least claim · {-1} not in line
--   · {0, ms until the lock ends (−1 no expiry, −2 free), rank, 1 when a plain client holds it, ms of gap left}
local answers = {}
for entry = 0, #KEYS / 5 - 1 do
  use(entry * 5 + 1)
  local at = 5 + entry * 4
  local owner, member, claim, live = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local value = call('GET', lock)
  local answer
  if is_of(owner, value) then
    extend(claim)
    answer = {1, epoch_of(value)}
  elseif not call('ZSCORE', line, member) then
    answer = {-1}
  else
    call('HSET', wait, owner, integer(math.floor(micros() / 1000) + live) .. ' ' .. ARGV[1] .. ' ' .. ARGV[2])
    call('PEXPIRE', wait, LINE_LIFE)
    call('PEXPIRE', line, LINE_LIFE)
    local rest = value and 0 or resting(ARGV[3], ARGV[4])
    local epoch = not value and rest == 0 and advance(member, claim)
    if epoch then
      answer = {1, epoch}
    else
      local foreign = value and not epoch_of(value) and 1 or 0
      answer = {0, call('PTTL', lock), call('ZRANK', line, member) or 0, foreign, rest}
    end
  end
  answers[#answers + 1] = answer
end
return answers
