-- Reads a record together with the server's time. KEYS: record.
-- Returns {seconds, microseconds, "version data" or nil}
local time = redis.call('TIME')
return {time[1], time[2], redis.call('GET', KEYS[1])}
