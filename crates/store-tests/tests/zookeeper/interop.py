"""kazoo's own lock: adds to a number that nothing else protects. Arguments: address, path of the lock, turns, file with the number."""

import sys
import time

from kazoo.client import KazooClient

address, path, turns, file = sys.argv[1:]
client = KazooClient(hosts=address)
client.start()
lock = client.Lock(path, "kazoo", extra_lock_patterns=["-lock-"])
for _ in range(int(turns)):
    with lock:
        with open(file) as opened:
            number = int(opened.read())
        time.sleep(0)
        with open(file, "w") as opened:
            opened.write(str(number + 1))
client.stop()
