"""redis-py's own lock: adds to a number that nothing else protects. Arguments: URL, name of the lock, turns."""

import sys

import redis

client = redis.Redis.from_url(sys.argv[1])
for _ in range(int(sys.argv[3])):
    with client.lock(sys.argv[2], timeout=30, sleep=0.01):
        number = int(client.get("count") or 0)
        client.set("count", number + 1)
