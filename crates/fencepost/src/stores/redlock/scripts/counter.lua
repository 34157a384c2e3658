-- The counter of a name on this server: a hash with the version of the layout and the last count. Comes before the scripts that use it.
-- In layout 1 it was a string. A program of that version fails on the hash (WRONGTYPE), so it does not get a lock whose counter it would
-- not understand.
local call, pcall = redis.call, redis.pcall
local LAYOUT = '2'
-- Lower than any count that a correct clock has lifted (it was reached in March 2026), and higher than any that a program of layout 1
-- has left, whose units were eight times as long.
local LIFTED = 2 ^ 43
-- How far time lifts counts. A clock in a far century does not use up the rest of the range.
local LIFT_MAX = 2 ^ 46

-- Returns the last count, 0 if there is none, or nil and the reason why it cannot be used.
local function last(counter)
  local fields = pcall('HMGET', counter, 'layout', 'count')
  if fields.err then
    local count = pcall('GET', counter)
    if type(count) == 'table' then return nil, count end
    return tonumber(count) or 0
  end
  if fields[1] and fields[1] ~= LAYOUT then
    local problem = 'LAYOUT locks here have layout ' .. fields[1] .. ', which is newer than this program'
    return nil, {err = problem}
  end
  return tonumber(fields[2] or 0)
end

-- Returns the server's time in units of 7.8125 µs since 2024.
local function lifted()
  local time = call('TIME')
  return math.min(math.floor((time[1] * 1000000 + time[2] - 1704067200000000) * 0.128), LIFT_MAX)
end

-- Writes the count, and converts a counter of layout 1. Returns an error if the server is out of memory.
local function keep(counter, count, retention)
  local fields = {'layout', LAYOUT, 'count', string.format('%d', count)}
  local answer = pcall('HSET', counter, unpack(fields))
  if type(answer) == 'table' and string.find(answer.err, 'WRONGTYPE', 1, true) then
    call('DEL', counter)
    answer = pcall('HSET', counter, unpack(fields))
  end
  if type(answer) == 'table' then return answer end
  call('PEXPIRE', counter, retention)
end
