-- Shared by the scripts that may change who holds a lock. It comes after their fast path, which most calls never leave.
-- `use` sets the keys of one lock. KEYS declares the first two; the others are in the same slot.
--   lock  string   "owner epoch ttl since label", expires with the lease. Plain clients only see a taken key. A + instead of the first
--                  space means that somebody may be in line. A ~ before the epoch means that it is the holder's guess; see `is_guessed`.
--   line  sorted   score: ticket (server µs at the first enqueue); member: "owner ttl waiter_lease live stamp channel label"
--   wait  hash     owner → "deadline stamp channel", written by heartbeats and re-entries
--   fence sorted   one member, the layout's number; its score is the last epoch. Kept for a while after its last use
--   gap   string   exists while the next free gap for plain clients is not due; see `resting`
local lock, line, wait, fence, gap
local function use(lock_key, line_key)
  lock, line = lock_key, line_key
  -- The tag in front contains no brace, so the first one ends it.
  local at = string.find(line, '}:line:', 1, true)
  local tag, name = string.sub(line, 1, at), string.sub(line, at + 6)
  wait, fence, gap = tag .. ':wait' .. name, tag .. ':fence' .. name, tag .. ':gap' .. name
end

-- What the caller knows: the highest epoch of the name that it has seen, and how long to keep its fence, in ms.
local floor, keep

-- The fence's only member. A program of layout 1 kept the epoch as a string and counted with INCR: its commands fail on a sorted set,
-- without effect. A later layout uses another number, which this one refuses.
local LAYOUT = '2'
-- Epochs of layout 1 had units that were eight times as long: they reach this in 2032; those of layout 2 are past it since 2025. (If the
-- clock is before that, holders of layout 2 are mistaken for older ones, and waiters find a free lock with their heartbeats.)
local LAYOUT_1_END = 2 ^ 42
local LINE_LIFE = 10000
-- How far time lifts epochs. A clock in a far century does not use them up: half of them are left for counting.
local LIFT_MAX = 2 ^ 46
-- Epochs are below this.
local EPOCH_END = 2 ^ 47

local function integer(number) return string.format('%d', number) end

local started
local function micros()
  if not started then
    local time = call('TIME')
    started = time[1] * 1000000 + time[2]
  end
  return started
end

local function is_of(owner, value) return value and string.sub(value, 1, 32) == owner end
-- Returns the epoch of our lock, or nil if a plain client holds it.
local function epoch_of(value) return value and tonumber((string.match(value, '^%x+[ +]~?(%d+) %d+ %d+ '))) end
-- Returns whether the owner took the lock with plain commands whose answers were not as expected or were lost. The lock then has no epoch
-- yet, and somebody may have been in line, so it counts as free.
local function is_guessed(owner, value) return is_of(owner, value) and string.byte(value, 34) == 126 end

-- Returns whether waiters mark this value, so that its holder looks at the line when it releases. A holder of layout 1 must not look: it
-- would fail to count, and keep the lock until its lease ends. Without the mark it just deletes the key, and the next heartbeat finds that.
local function is_marked_by_waiters(value)
  local epoch = epoch_of(value)
  return epoch and epoch > LAYOUT_1_END
end

-- Removes the waiters' mark from the value of a holder of layout 1.
local function unmark()
  local value = redis.pcall('GET', lock)
  local is_marked = type(value) == 'string' and string.byte(value, 33) == 43
  if is_marked and epoch_of(value) and not is_marked_by_waiters(value) then call('SETRANGE', lock, 32, ' ') end
end

-- Returns the last epoch that the server knows. Removes a counter of layout 1, which is then replaced.
local function last_epoch()
  local kind = call('TYPE', fence).ok
  if kind == 'none' then return 0 end
  if kind == 'string' then
    local last = tonumber(call('GET', fence))
    call('DEL', fence)
    unmark()
    return last or 0
  end
  local last = kind == 'zset' and call('ZSCORE', fence, LAYOUT)
  if not last then error('FENCEPOST_NEWER_LAYOUT') end
  return tonumber(last)
end

-- Returns the epoch in the lock's value, which may have outlived the counter.
local function held_epoch()
  local value = redis.pcall('GET', lock)
  local epoch = type(value) == 'string' and epoch_of(value) or 0
  return epoch < EPOCH_END and epoch or 0
end

-- Raises the last epoch to the server's time since 2024 in units of 7.8125 µs, and to the highest epoch that the caller or the lock's value
-- knows, if it is lower. It thus passes increments that a restart, a failover or FLUSHALL has lost. Every connection does that for each
-- name before it uses the name. Also renews the life of the fence.
local function lift()
  local time = math.min(math.floor((micros() - 1704067200000000) * 0.128), LIFT_MAX)
  local epoch = math.max(last_epoch(), held_epoch(), time, floor)
  call('ZADD', fence, integer(epoch), LAYOUT)
  call('PEXPIRE', fence, keep)
end

local function next_epoch()
  -- With XX, a missing counter is not created here: it would not be lifted and would never expire.
  local epoch = tonumber((redis.pcall('ZADD', fence, 'XX', 'INCR', 1, LAYOUT)))
  if not epoch or epoch <= floor then
    lift()
    epoch = tonumber(call('ZADD', fence, 'XX', 'INCR', 1, LAYOUT))
  end
  return epoch
end

local function put(owner, mark, epoch, lease, ttl, label)
  local since = math.floor(micros() / 1000)
  call('SET', lock, string.format('%s%s%d %s %d %s', owner, mark, epoch, ttl, since, label), 'PX', lease)
end

-- Returns how long the lock still stays free on purpose, in ms, or 0 if it may be taken. `every` is '0' if no gap is configured.
local function resting(every, length)
  if every == '0' then return 0 end
  return math.max(0, call('PTTL', gap) - (every - length))
end

-- Returns whether a client that has waited this long (in µs) may have a record. It needs none before its first heartbeat is due.
-- (A negative time means that the server's clock went back.)
local function is_recorded(waited, live) return waited < 0 or waited > live * 166 end

-- Handles a server clock that went back: until it catches up, newcomers would overtake waiters whose tickets show a later time.
-- Moves those waiters to the present, in their order.
local function bring_back()
  local last = call('ZRANGE', line, -1, -1, 'WITHSCORES')
  local ahead = last[2] - micros()
  for _, member in ipairs(call('ZRANGE', line, integer(micros()), '+inf', 'BYSCORE')) do
    call('ZINCRBY', line, integer(-ahead), member)
  end
end

-- Gives a free lock (or one that is being released) to the first live waiter in line. Returns the epoch if that is `me`, which then gets
-- `lease`; otherwise nil, and whether somebody got the lock. `head` is the first entry in line if it was removed already.
local function advance(me, lease, head)
  while true do
    head = head or call('ZPOPMIN', line)
    local member = head[1]
    if not member then return nil, false end
    local owner, ttl, waiter_lease, live, stamp, channel, label =
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
        heard = redis.pcall('PUBLISH', channel, string.format('%s %d %s %s', owner, epoch, waiter_lease, stamp))
        -- The user has no permission for channels: the waiter finds out with its next heartbeat.
        if type(heard) == 'table' then heard = 1 end
      end
      if heard > 0 then
        put(owner, '+', epoch, waiter_lease, ttl, label)
        return nil, true
      end
    end
  end
end

local function extend(lease)
  if call('PTTL', lock) < tonumber(lease) then call('PEXPIRE', lock, lease) end
end

-- Returns whether this entry's last heartbeat is so old that the line would have expired if all entries were like this.
local function is_long_dead(member, ticket, owner)
  local live = string.match(member, '^%x+ %d+ %d+ (%d+) ')
  local record = call('HGET', wait, owner)
  local deadline = record and tonumber((string.match(record, '^%d+'))) or ticket / 1000 + live
  return micros() / 1000 > deadline + LINE_LIFE
end

-- Removes up to eight entries that are long dead: from `rank` towards the head, or from the end if -1. Returns how many.
-- A waiter that was only away does not lose its place: it comes back with its ticket.
local function bury(rank)
  for buried = 0, 7 do
    local at = rank < 0 and -1 or rank - buried
    if rank >= 0 and at < 0 then return buried end
    local entry = call('ZRANGE', line, at, at, 'WITHSCORES')
    local owner = entry[1] and string.match(entry[1], '^%x+')
    if not owner or not is_long_dead(entry[1], entry[2], owner) then return buried end
    call('ZREM', line, entry[1])
    call('HDEL', wait, owner)
  end
  return 8
end
