-- Ends a lease, or leaves the line; what it does not own it does not touch.
-- ARGV: owner member every length. Returns 1 released · 2 left the line · 0 neither
use(1)
local owner, member = ARGV[1], ARGV[2]
local value = call('GET', lock)
if is_of(owner, value) then
  if ARGV[3] ~= '0' and call('EXISTS', line) == 1 and call('SET', gap, '', 'NX', 'PX', ARGV[3]) then
    call('DEL', lock)
    return 1
  end
  local _, given = advance('', 0)
  if not given then call('DEL', lock) end
  return 1
end
local left = 0
if member ~= '' then
  left = call('ZREM', line, member)
  call('HDEL', wait, owner)
end
if not value and resting(ARGV[3], ARGV[4]) == 0 then advance('', 0) end
return left * 2
