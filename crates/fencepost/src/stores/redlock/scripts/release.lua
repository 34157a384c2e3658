-- Releases the lock's key on this server. Does not touch a key of another owner.
-- KEYS: lock. ARGV: owner · only a key of that moment or before, '' = any time · only a key from after that moment, '' = any time
-- Returns 1 released · 0 not there
local value = redis.pcall('GET', KEYS[1])
-- A key of another type has taken the name.
if type(value) ~= 'string' or string.sub(value, 1, 32) ~= ARGV[1] then return 0 end
local since = tonumber((string.match(value, '^%x+ %d+ %d+ (%d+) ')))
if ARGV[2] ~= '' and since > tonumber(ARGV[2]) then return 0 end
if ARGV[3] ~= '' and since <= tonumber(ARGV[3]) then return 0 end
redis.call('DEL', KEYS[1])
return 1
