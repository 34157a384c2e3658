use(KEYS[1], KEYS[2])
floor, keep = tonumber(ARGV[3]), ARGV[4]
local owner = ARGV[1]
-- A server that is out of memory refuses the first write of a script if it may need memory, but allows all writes after one that needs none
call('HDEL', wait, owner)
if ARGV[2] == '1' or ARGV[2] == '3' then lift() end
local every, length, member = ARGV[5] or '0', ARGV[6] or '0', ARGV[7] or ''
if is_of(owner, value) then
  if every ~= '0' and call('EXISTS', line) == 1 and call('SET', gap, '', 'NX', 'PX', every) then
    call('DEL', lock)
    return 1
  end
  local _, given = advance(nil, nil, head)
  if not given then call('DEL', lock) end
  return 1
end
local left = 0
if member ~= '' then left = call('ZREM', line, member) end
if not value and resting(every, length) == 0 then advance() end
return left * 2
