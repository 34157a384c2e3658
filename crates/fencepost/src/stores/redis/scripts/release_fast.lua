-- Ends a lease, or leaves the line. Never touches what belongs to others.
-- KEYS: lock line fence. ARGV: owner · '0' if the epoch need not be lifted, '1' if it must be, '2' and '3' the same for an owner that
--   took the lock with plain commands · the highest epoch of this name that the caller knows · how long the fence is kept, in ms
--   · and, if there is a gap or an entry: every length member
-- Returns 1 released · 2 left the line · 0 neither
local call = redis.call
local value = redis.pcall('GET', KEYS[1])
-- A key of another type has taken the name. It is not ours, but there may still be an entry to remove.
if type(value) == 'table' then value = '' end
local head
if value and not ARGV[5] and string.sub(value, 1, 32) == ARGV[1] then
  -- Nobody waits: a waiter would have left a mark. But an owner that takes back plain commands may have overtaken a waiter.
  if string.byte(value, 33) == 32 and (ARGV[2] > '1' or string.byte(value, 34) ~= 126) then
    call('DEL', KEYS[1])
    return 1
  end
  head = call('ZPOPMIN', KEYS[2])
  if not head[1] then
    call('DEL', KEYS[1])
    return 1
  end
  -- Does what `advance` below does, for a waiter that came a moment ago and can be notified. A busy lock usually goes to such a waiter.
  local owner, ttl, waiter_lease, live, stamp, channel, label =
    string.match(head[1], '^(%x+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  local time = call('TIME')
  local waited = time[1] * 1000000 + time[2] - head[2]
  if (ARGV[2] == '0' or ARGV[2] == '2') and waited >= 0 and waited < live * 166 and channel ~= '-' then
    local epoch = tonumber((redis.pcall('ZADD', KEYS[3], 'XX', 'INCR', 1, '2')))
    -- The counter was forgotten or is behind: what follows lifts it.
    if epoch and epoch > tonumber(ARGV[3]) then
      local heard = redis.pcall('PUBLISH', channel, string.format('%s %d %s %s', owner, epoch, waiter_lease, stamp))
      if heard ~= 0 then
        local since = string.format('%s%03d', time[1], time[2] / 1000)
        call('SET', KEYS[1], string.format('%s+%d %s %s %s', owner, epoch, ttl, since, label), 'PX', waiter_lease)
        return 1
      end
      -- Its connection is gone: try the next one.
      head = nil
    end
  end
end
