"""A lock in Redis or, if the lab has none, in a file of this folder. Its holder counts its lease by the clock that it is told (realtime,
monotonic or boottime), and declines a step when the lease is over by that clock."""

import fcntl
import json
import os
import socket
import sys
import time
from urllib.parse import urlsplit

CLOCKS = {
    "realtime": time.CLOCK_REALTIME,
    "monotonic": time.CLOCK_MONOTONIC,
    "boottime": time.CLOCK_BOOTTIME,
}


def now():
    return time.clock_gettime(CLOCKS[sys.argv[1]])


def boot():
    """A clock that no library answers for."""
    with open("/proc/uptime") as file:
        return float(file.read().split()[0])


def shared_now():
    """What the records count by: as a store would, or by the time of day of whoever asks."""
    return now() if sys.argv[1] == "realtime" else boot()


class RedisRecords:
    RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"

    def __init__(self, address, ttl):
        self.ttl_ms = str(int(ttl * 1000))
        server = urlsplit(address)
        self.stream = socket.create_connection((server.hostname, server.port)).makefile("rwb")

    def ask(self, *words):
        request = [f"*{len(words)}"]
        for word in words:
            request += [f"${len(word)}", word]
        self.stream.write(("\r\n".join(request) + "\r\n").encode())
        self.stream.flush()
        return self.stream.readline().strip()

    def take(self, key, owner):
        return self.ask("SET", key, owner, "NX", "PX", self.ttl_ms) == b"+OK"

    def release(self, key, owner):
        return self.ask("EVAL", self.RELEASE, "1", key, owner) == b":1"


class FileRecords:
    def __init__(self, folder, ttl):
        self.folder, self.ttl = folder, ttl
        os.makedirs(folder, exist_ok=True)

    def alone(self, key, change):
        with open(os.path.join(self.folder, key), "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            record = json.loads(text) if text else {"owner": "", "until": 0.0}
            changed = change(record)
            if changed is None:
                return False
            file.seek(0)
            file.truncate()
            file.write(json.dumps(changed))
            return True

    def take(self, key, owner):
        def change(record):
            if record["until"] > shared_now():
                return None
            return {"owner": owner, "until": shared_now() + self.ttl}

        return self.alone(key, change)

    def release(self, key, owner):
        free = {"owner": "", "until": 0.0}
        return self.alone(key, lambda record: free if record["owner"] == owner else None)


class Lock:
    def __init__(self, records, ttl):
        self.records, self.ttl, self.holds, self.last = records, ttl, {}, 0

    def acquire(self, key, wait):
        self.last += 1
        owner = f"{os.getpid()} {self.last}"
        began, ends = boot(), now() + self.ttl
        while not self.records.take(key, owner):
            if boot() - began >= wait:
                return None
            time.sleep(0.005)
            ends = now() + self.ttl
        self.holds[self.last] = (key, owner, ends)
        return self.last

    def is_over(self, hold):
        return now() >= self.holds[hold][2]

    def release(self, hold):
        key, owner, _ = self.holds.pop(hold)
        return self.records.release(key, owner)


def answer(ask, lock):
    op = ask["op"]
    if ask["type"] == "acquire":
        hold = lock.acquire(ask["key"], ask["wait_ms"] / 1000)
        return {"type": "refused", "op": op} if hold is None else {"type": "acquired", "op": op, "hold": hold}
    if ask["type"] == "step":
        return {"type": "declined" if lock.is_over(ask["hold"]) else "stepped", "op": op}
    if ask["type"] == "release":
        outcome = "released" if lock.release(ask["hold"]) else "already_lost"
        return {"type": "released", "op": op, "outcome": outcome}
    return {"type": "error", "op": op, "definite": True, "message": "cannot do"}


lock = None
for line in sys.stdin:
    ask = json.loads(line)
    if ask["type"] == "shutdown":
        break
    if ask["type"] == "init":
        address, ttl = ask["endpoints"][0], ask["ttl_ms"] / 1000
        is_redis = address.startswith("redis://")
        lock = Lock(RedisRecords(address, ttl) if is_redis else FileRecords(sys.argv[2], ttl), ttl)
        print('{"type":"init_ok"}', flush=True)
    else:
        print(json.dumps(answer(ask, lock)), flush=True)
