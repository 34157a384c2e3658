-- Ends a lease, or leaves the line; what it does not own it does not touch.
-- KEYS: lock line. ARGV: owner · '0' when the epoch need not be lifted · and, where there is a gap or an entry: every length member
-- Returns 1 released · 2 left the line · 0 neither
local call = redis.call
local value = redis.pcall('GET', KEYS[1])
-- Something that is no lock has taken the name: not ours, but there is still an entry to take back.
if type(value) == 'table' then value = '' end
local head
if value and not ARGV[3] and string.sub(value, 1, 32) == ARGV[1] then
  head = call('ZPOPMIN', KEYS[2])
  if not head[1] then
    call('DEL', KEYS[1])
    return 1
  end
end
