-- Makes an epoch the count of this server, unless somebody else has drawn this count or a larger one here.
-- KEYS: lock counter. ARGV: owner · epoch · ms for which the counter is kept
-- Returns the epoch, if accepted · 0, if the owner does not have the lock's key · a negative count, if refused because of that count
local value = call('GET', KEYS[1])
if not value or string.sub(value, 1, 32) ~= ARGV[1] then return 0 end
local own, rest = string.match(value, '^%x+ (%d+)( .*)$')
local count, problem = last(KEYS[2])
if problem then return problem end
local epoch = tonumber(ARGV[2])
if count > epoch or (count == epoch and tonumber(own) ~= epoch) then return -count end
problem = keep(KEYS[2], epoch, ARGV[3])
if problem then return problem end
call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. rest, 'KEEPTTL')
return epoch
