-- Makes an epoch the count of this server, if none as large was drawn here by anybody else.
-- KEYS: lock counter. ARGV: owner · epoch
-- Returns the epoch: accepted · 0: the lock's key is not the owner's · less: refused, and the count here is that much
local call = redis.call
local value = call('GET', KEYS[1])
if not value or string.sub(value, 1, 32) ~= ARGV[1] then return 0 end
local own, rest = string.match(value, '^%x+ (%d+)( .*)$')
local epoch, count = tonumber(ARGV[2]), tonumber(call('GET', KEYS[2]) or 0)
if count > epoch or (count == epoch and tonumber(own) ~= epoch) then return -count end
call('SET', KEYS[2], ARGV[2], 'PX', 604800000)
call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. rest, 'KEEPTTL')
return epoch
