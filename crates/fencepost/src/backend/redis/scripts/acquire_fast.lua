-- KEYS: lock line fence. ARGV: owner · ttl · «ttl since label» · '0' when the epoch need not be lifted and no gap is configured
--   · «every length live stamp ticket channel member»; ticket 0 = first time; member '' = try: never enqueues, never overtakes
-- Returns the epoch: granted for ttl
--   · {ticket, ms until the lock ends (−1 no expiry, −2 free, −3 not told), ms of gap left}: wait
local call = redis.call
local present = call('EXISTS', KEYS[1], KEYS[2])
local must_lift = ARGV[4] ~= '0'
if present == 0 and not must_lift then
  local epoch = call('INCR', KEYS[3])
  -- There was no fence: a new name, or one that the server has forgotten.
  must_lift = epoch == 1
  if not must_lift then
    call('SET', KEYS[1], string.format('%s %.0f %s', ARGV[1], epoch, ARGV[3]), 'PX', ARGV[2])
    return epoch
  end
end
