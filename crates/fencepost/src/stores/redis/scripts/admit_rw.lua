-- Admits or refuses readers and writers of a read-write lock. gate: a hash in the resource's slot, without expiry; it lives as long as the
-- resource. Each function returns nil if admitted, and otherwise the fence in the way, as "epoch.seq". Epoch and seq are compared
-- separately: together they have more digits than a number in a script.

-- How far the credential is ahead of what the gate remembers under this name; nil if that is nothing.
local function ahead_of(gate, name, epoch, seq)
  local fence = redis.call('HGET', gate, name)
  if not fence then return nil end
  local seen_epoch, seen_seq = string.match(fence, '^(%d+)%.(%d+)$')
  local ahead = tonumber(epoch) - tonumber(seen_epoch)
  if ahead == 0 then ahead = tonumber(seq) - tonumber(seen_seq) end
  return ahead, fence, redis.call('HGET', gate, name .. '_by')
end

local function remember(gate, name, epoch, seq, owner)
  redis.call('HSET', gate, name, epoch .. '.' .. seq, name .. '_by', owner)
end

-- A read is refused below any fence that has written.
local function admit_read(gate, epoch, seq, owner)
  local ahead, fence, writer = ahead_of(gate, 'written', epoch, seq)
  if ahead and (ahead < 0 or (ahead == 0 and owner ~= writer)) then return fence end
  local newer = ahead_of(gate, 'seen', epoch, seq)
  if not newer or newer > 0 then remember(gate, 'seen', epoch, seq, owner) end
  return nil
end

-- A write is refused below any fence that was seen.
local function admit_write(gate, epoch, seq, owner)
  local ahead, fence, who = ahead_of(gate, 'seen', epoch, seq)
  if ahead and (ahead < 0 or (ahead == 0 and owner ~= who)) then return fence end
  remember(gate, 'seen', epoch, seq, owner)
  remember(gate, 'written', epoch, seq, owner)
  return nil
end
