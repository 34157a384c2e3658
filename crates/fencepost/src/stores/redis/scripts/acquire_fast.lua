-- KEYS: lock line fence. ARGV: owner · ttl · "ttl since label" · '0' if the epoch need not be lifted and no gap is configured,
--   otherwise '1'; '2' and '3' the same for an owner that took the lock with plain commands before
--   · ticket, 0 = first time · member, '' = try: never enqueues, never overtakes · "every length live stamp channel"
--   · the highest epoch of this name that the caller knows · how long the fence is kept, in ms
-- Returns the epoch, if granted for ttl
--   · {ticket, ms until the lock ends (−1 no expiry, −2 free, −3 not reported), ms of gap left}, if it has to wait
local call = redis.call
local present = call('EXISTS', KEYS[1], KEYS[2])
local must_lift = ARGV[4] ~= '0'
if not must_lift then
  if present == 0 then
    -- With XX, nothing is counted if there is no counter of this layout; `lift` creates one.
    local epoch = tonumber((redis.pcall('ZADD', KEYS[3], 'XX', 'INCR', 1, '2')))
    must_lift = not epoch or epoch <= tonumber(ARGV[8])
    if not must_lift then
      call('SET', KEYS[1], string.format('%s %d %s', ARGV[1], epoch, ARGV[3]), 'PX', ARGV[2])
      return epoch
    end
  elseif ARGV[5] == '0' and ARGV[6] ~= '' then
    local value = call('GET', KEYS[1])
    if value and string.sub(value, 1, 32) ~= ARGV[1] then
      local time = call('TIME')
      local ticket = string.format('%s%06d', time[1], time[2])
      if call('ZADD', KEYS[2], 'NX', ticket, ARGV[6]) == 1 then
        -- The holder must look at the line when it releases. Holders that got the lock from the line do so anyway.
        local epoch = string.byte(value, 33) == 32 and string.match(value, '^%x+ ~?(%d+) %d+ %d+ ')
        -- A holder of layout 1 must not look, because it could not count. See `is_marked_by_waiters`.
        if epoch and tonumber(epoch) > 4398046511104 then call('SETRANGE', KEYS[1], 32, '+') end
        -- An existing line already has an expiry, which heartbeats extend.
        if present == 2 then return {ticket, -3, 0} end
        call('PEXPIRE', KEYS[2], 10000)
        return {ticket, call('PTTL', KEYS[1]), 0}
      end
    end
  end
end
