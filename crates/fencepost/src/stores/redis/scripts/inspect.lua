-- Reads a lock without changing it. KEYS: lock line wait.
-- Returns {server ms, value or '', ms left (−1 no expiry, −2 free), type, owner's waiters: {label, waited ms} …}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
-- A longer value is not our lock but somebody's data, which may be large.
if kind == 'string' and redis.call('STRLEN', KEYS[1]) <= 4096 then value = redis.call('GET', KEYS[1]) end
local waiters = {}
local entries = redis.call('ZRANGE', KEYS[2], 0, 999, 'WITHSCORES')
for at = 1, #entries, 2 do
  local owner, live, label = string.match(entries[at], '^(%x+) %d+ %d+ (%d+) %d+ %S* (.*)$')
  local waited = now - math.floor(entries[at + 1] / 1000)
  local record = redis.call('HGET', KEYS[3], owner)
  local alive = waited < tonumber(live)
  if record then alive = tonumber(string.match(record, '^%d+')) > now end
  if alive then waiters[#waiters + 1] = {label, waited} end
end
return {now, value, redis.call('PTTL', KEYS[1]), kind, waiters}
