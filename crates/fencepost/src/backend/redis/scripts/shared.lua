-- Shared by the scripts that may change who holds a lock. `use` names the keys of one lock; all of them are declared in KEYS.
--   lock  string   «owner epoch ttl label», expires with the lease. Plain clients only see a taken key.
--   line  sorted   score: ticket (server µs at the first enqueue); member: «owner claim live stamp channel label»
--   wait  hash     owner → «deadline stamp channel», written by beats and re-entries
--   fence string   the last epoch; kept for days after its last use
--   gap   string   there while the next free gap for plain clients is not due; see `resting`
local call = redis.call
local lock, line, wait, fence, gap
local function use(first)
  lock, line, wait, fence, gap = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3], KEYS[first + 4]
end

local RETENTION = 7 * 24 * 3600 * 1000
local LINE_LIFE = 10000

local function integer(number) return string.format('%.0f', number) end

local started
local function micros()
  if not started then
    local time = call('TIME')
    started = time[1] * 1000000 + time[2]
  end
  return started
end

-- One more than the last epoch, and never below the server's time since 2024 in units of 62.5 µs: so it rises past
-- increments that a restart or a failover has lost.
local function next_epoch()
  local epoch = math.floor((micros() - 1704067200000000) * 0.016)
  local last = tonumber(call('SET', fence, integer(epoch), 'PX', RETENTION, 'GET') or 0)
  if epoch <= last then
    epoch = last + 1
    call('SET', fence, integer(epoch), 'PX', RETENTION)
  end
  return epoch
end

local function is_of(owner, value) return value and string.sub(value, 1, 33) == owner .. ' ' end
-- The epoch of a lock of ours; nil: a plain client holds it.
local function epoch_of(value) return string.match(value, '^%x+ (%d+) %d+ ') end

local function take(owner, lease, ttl, label)
  local epoch = next_epoch()
  call('SET', lock, owner .. ' ' .. integer(epoch) .. ' ' .. ttl .. ' ' .. label, 'PX', lease)
  return integer(epoch)
end

-- How long the lock still lies free on purpose, in ms; 0: it may be taken. `every` is '0' where no gap is configured.
local function resting(every, length)
  if every == '0' then return 0 end
  return math.max(0, call('PTTL', gap) - (every - length))
end

-- Gives a free lock (or one that is being released) to the first in line that is alive. Returns the epoch when that is
-- `me`, which then gets `lease`; else false, and whether somebody got it.
local function advance(me, lease)
  while true do
    local head = call('ZPOPMIN', line)
    local member = head[1]
    if not member then return false, false end
    local owner, ttl, claim, live, stamp, channel, label =
      string.match(member, '^(%x+) (%d+) (%d+) (%d+) (%d+) (%S*) (.*)$')
    local waited = micros() - head[2]
    local alive = waited < live * 1000
    -- Before a beat can have come there is no record to look for. (Less than nothing: the server's clock went back.)
    if waited < 0 or waited > live * 166 then
      local record = call('HGET', wait, owner)
      if record then
        call('HDEL', wait, owner)
        local deadline
        deadline, stamp, channel = string.match(record, '^(%d+) (%d+) (%S*)$')
        alive = deadline * 1000 > micros()
      end
    end
    if alive and member == me then return take(owner, lease, ttl, label), true end
    if alive then
      local epoch = integer(next_epoch())
      local heard = 1
      if channel ~= '-' then
        heard = redis.pcall('PUBLISH', channel, owner .. ' ' .. epoch .. ' ' .. claim .. ' ' .. stamp)
        -- A user without rights on channels: the waiter finds out by its next beat.
        if type(heard) == 'table' then heard = 1 end
      end
      if heard > 0 then
        call('SET', lock, owner .. ' ' .. epoch .. ' ' .. ttl .. ' ' .. label, 'PX', claim)
        return false, true
      end
    end
  end
end

local function extend(lease)
  if call('PTTL', lock) < tonumber(lease) then call('PEXPIRE', lock, lease) end
end
