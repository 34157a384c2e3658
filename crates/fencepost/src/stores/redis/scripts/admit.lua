-- Admits or refuses a credential. gate: a key in the resource's slot, without expiry; it lives as long as the resource.
-- Returns nil if admitted, and otherwise the highest fence seen, as "epoch.seq". Epoch and seq are compared separately: together
-- they have more digits than a number in a script.
local function admit(gate, epoch, seq, owner)
  local seen = redis.call('GET', gate)
  if seen then
    local seen_epoch, seen_seq, seen_owner = string.match(seen, '^(%d+) (%d+) (%x+)$')
    local ahead = tonumber(epoch) - tonumber(seen_epoch)
    if ahead == 0 then ahead = tonumber(seq) - tonumber(seen_seq) end
    if ahead < 0 or (ahead == 0 and owner ~= seen_owner) then return seen_epoch .. '.' .. seen_seq end
    if ahead == 0 then return nil end
  end
  redis.call('SET', gate, epoch .. ' ' .. seq .. ' ' .. owner)
  return nil
end
