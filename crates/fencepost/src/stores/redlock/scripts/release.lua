-- Gives the lock's key on this server back; what is not the owner's is not touched.
-- KEYS: lock. ARGV: owner · only a key from that moment or before; '' = whenever it is from · only a key from after that moment; '' = likewise
-- Returns 1 released · 0 not there
local value = redis.pcall('GET', KEYS[1])
-- Something that is no lock has taken the name.
if type(value) ~= 'string' or string.sub(value, 1, 32) ~= ARGV[1] then return 0 end
local since = tonumber((string.match(value, '^%x+ %d+ %d+ (%d+) ')))
if ARGV[2] ~= '' and since > tonumber(ARGV[2]) then return 0 end
if ARGV[3] ~= '' and since <= tonumber(ARGV[3]) then return 0 end
redis.call('DEL', KEYS[1])
return 1
