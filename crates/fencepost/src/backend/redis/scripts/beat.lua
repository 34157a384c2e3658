-- KEYS: lock line of each entry. ARGV: stamp channel every length, then for each entry: owner member claim live
-- Signs of life of those who wait; never creates an entry. Returns for each: the epoch, granted for at least claim · 0 not in line
--   · {ms until the lock ends (−1 no expiry, −2 free), rank, 1 when a plain client holds it, ms of gap left}: wait on
local answers = {}
for entry = 0, #KEYS / 2 - 1 do
  use(KEYS[entry * 2 + 1], KEYS[entry * 2 + 2])
  local at = 5 + entry * 4
  local owner, member, claim, live = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  -- Where the name became the key of something else its waiters ask for themselves, and hear so; the others wait on.
  local value = redis.pcall('GET', lock)
  local answer = 0
  if type(value) == 'table' then
    answer = 0
  elseif is_of(owner, value) then
    extend(claim)
    answer = epoch_of(value)
  elseif call('ZSCORE', line, member) then
    local deadline = math.floor(micros() / 1000) + live
    call('HSET', wait, owner, string.format('%.0f %s %s', deadline, ARGV[1], ARGV[2]))
    call('PEXPIRE', wait, LINE_LIFE)
    call('PEXPIRE', line, LINE_LIFE)
    local rest = value and 0 or resting(ARGV[3], ARGV[4])
    answer = not value and rest == 0 and advance(member, claim)
    if not answer then
      local plain = value and not epoch_of(value) and 1 or 0
      answer = {call('PTTL', lock), call('ZRANK', line, member) or 0, plain, rest}
    end
  end
  answers[#answers + 1] = answer
end
return answers
