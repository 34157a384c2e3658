"""kazoo's own lock as a contender of the benchmark of stores. Argument: addresses of ZooKeeper.

Reads one request per line and answers each with one line; player.rs of the benchmark says what they mean.
"""

import sys
import threading
import time

from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1])
client.start()


def lock(number):
    return client.Lock(f"/kazoo/{number}")


def all_at_once(count, work):
    threads = [threading.Thread(target=work, args=(seat,)) for seat in range(count)]
    for thread in threads:
        thread.start()
    return threads


def pairs(count, name=1000):
    started = time.monotonic_ns()
    own = lock(name)
    for _ in range(count):
        with own:
            pass
    return time.monotonic_ns() - started


def many(tasks, count):
    started = time.monotonic_ns()
    for thread in all_at_once(tasks, lambda seat: pairs(count, 1000 + seat)):
        thread.join()
    return time.monotonic_ns() - started


def turns(tasks, milliseconds):
    end = time.monotonic_ns() + milliseconds * 1_000_000
    seen = []

    def play(seat):
        own = lock(1)
        while time.monotonic_ns() < end:
            with own:
                seen.append(f"{time.monotonic_ns()} {seat}")

    for thread in all_at_once(tasks, play):
        thread.join()
    return " ".join(seen)


def queue(waiters):
    served = []

    def wait(seat):
        with lock(2):
            served.append(str(seat))
            time.sleep(0.001)

    with lock(2):
        threads = all_at_once(waiters, wait)
        time.sleep(0.3)
        started = time.monotonic_ns()
    for thread in threads:
        thread.join()
    return f"{time.monotonic_ns() - started} {' '.join(served)}"


REQUESTS = {"pairs": pairs, "many": many, "turns": turns, "queue": queue}

for line in sys.stdin:
    request, *numbers = line.split()
    print(REQUESTS[request](*map(int, numbers)), flush=True)
client.stop()
