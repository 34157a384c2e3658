-- Shared by the scripts that may change who holds a lock; comes after their fast path, which most calls never leave.
-- `use` names the keys of one lock. KEYS declares the first two; the others are in the same slot.
--   lock  string   «owner epoch ttl since label», expires with the lease. Plain clients only see a taken key. With a + instead of
--                  the first space somebody may be in line. With a ~ before the epoch it is the holder's guess; see `is_guessed`.
--   line  sorted   score: ticket (server µs at the first enqueue); member: «owner ttl claim live stamp channel label»
--   wait  hash     owner → «deadline stamp channel», written by beats and re-entries
--   fence string   the last epoch; kept for days after its last use
--   gap   string   there while the next free gap for plain clients is not due; see `resting`
local lock, line, wait, fence, gap
local function use(lock_key, line_key)
  lock, line = lock_key, line_key
  -- The tag in front contains no brace, so the first one ends it.
  local at = string.find(line, '}:line:', 1, true)
  local tag, name = string.sub(line, 1, at), string.sub(line, at + 6)
  wait, fence, gap = tag .. ':wait' .. name, tag .. ':fence' .. name, tag .. ':gap' .. name
end

local RETENTION = 7 * 24 * 3600 * 1000
local LINE_LIFE = 10000
-- How far time lifts epochs. A clock in a far century does not use them up: half of all are left to be counted.
local LIFT_MAX = 2 ^ 46
-- Lower than any epoch that was lifted by a clock that is right.
local LIFTED = 2 ^ 36

local function integer(number) return string.format('%d', number) end

local started
local function micros()
  if not started then
    local time = call('TIME')
    started = time[1] * 1000000 + time[2]
  end
  return started
end

-- Raises the last epoch to the server's time since 2024 in units of 62.5 µs, if it is lower: so it passes increments that a
-- restart or a failover has lost. Every connection does that with each name before it uses it. Also renews the retention.
local function lift()
  local last = tonumber(call('GET', fence) or 0)
  local time = math.min(math.floor((micros() - 1704067200000000) * 0.016), LIFT_MAX)
  call('SET', fence, integer(math.max(last, time)), 'PX', RETENTION)
end

local function next_epoch()
  local epoch = call('INCR', fence)
  -- A new name, or one that the server has forgotten.
  if epoch < LIFTED then
    lift()
    epoch = call('INCR', fence)
  end
  return epoch
end

local function is_of(owner, value) return value and string.sub(value, 1, 32) == owner end
-- The epoch of a lock of ours; nil: a plain client holds it.
local function epoch_of(value) return value and tonumber((string.match(value, '^%x+[ +]~?(%d+) %d+ %d+ '))) end
-- Taken by plain commands whose answers were not what the asker had hoped for, or did not reach it: it has no epoch yet, and
-- somebody may have been in line. As good as free.
local function is_guessed(owner, value) return is_of(owner, value) and string.byte(value, 34) == 126 end

local function put(owner, mark, epoch, lease, ttl, label)
  local since = math.floor(micros() / 1000)
  call('SET', lock, string.format('%s%s%d %s %d %s', owner, mark, epoch, ttl, since, label), 'PX', lease)
end

-- How long the lock still lies free on purpose, in ms; 0: it may be taken. `every` is '0' where no gap is configured.
local function resting(every, length)
  if every == '0' then return 0 end
  return math.max(0, call('PTTL', gap) - (every - length))
end

-- Whether one who has waited so long (in µs) may have a record. Before a beat is due there is no need of one.
-- (Less than nothing: the server's clock went back.)
local function is_recorded(waited, live) return waited < 0 or waited > live * 166 end

-- The server's clock went back: newcomers would overtake those whose tickets show a later time, for as long as it went back.
-- Moves those to the present, in their order.
local function bring_back()
  local last = call('ZRANGE', line, -1, -1, 'WITHSCORES')
  local ahead = last[2] - micros()
  for _, member in ipairs(call('ZRANGE', line, integer(micros()), '+inf', 'BYSCORE')) do
    call('ZINCRBY', line, integer(-ahead), member)
  end
end

-- Gives a free lock (or one that is being released) to the first in line that is alive. Returns the epoch when that is
-- `me`, which then gets `lease`; else nil, and whether somebody got it. `head` is the first in line if it was taken out already.
local function advance(me, lease, head)
  while true do
    head = head or call('ZPOPMIN', line)
    local member = head[1]
    if not member then return nil, false end
    local owner, ttl, claim, live, stamp, channel, label =
      string.match(member, '^(%x+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
    local waited = micros() - head[2]
    head = nil
    local alive = waited < live * 1000
    if is_recorded(waited, live) then
      local record = call('HGET', wait, owner)
      if record then
        call('HDEL', wait, owner)
        local deadline
        deadline, stamp, channel = string.match(record, '^(%d+) (%d+) (%S+)$')
        alive = deadline * 1000 > micros()
      end
    end
    if alive then
      local epoch = next_epoch()
      if member == me then
        put(owner, '+', epoch, lease, ttl, label)
        return epoch, true
      end
      local heard = 1
      if channel ~= '-' then
        heard = redis.pcall('PUBLISH', channel, string.format('%s %d %s %s', owner, epoch, claim, stamp))
        -- A user without rights on channels: the waiter finds out by its next beat.
        if type(heard) == 'table' then heard = 1 end
      end
      if heard > 0 then
        put(owner, '+', epoch, claim, ttl, label)
        return nil, true
      end
    end
  end
end

local function extend(lease)
  if call('PTTL', lock) < tonumber(lease) then call('PEXPIRE', lock, lease) end
end
