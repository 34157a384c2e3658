"""redis-py's own lock as a contender of the Redis benchmark, with its default pauses. Argument: URL.

Reads one request per line and answers each with one line; player.rs of the benchmark says what they mean.
"""

import os
import sys
import threading
import time

import redis

client = redis.Redis.from_url(sys.argv[1])


def lock(number):
    return client.lock(f"redis-py:{number}", timeout=2)


def all_at_once(count, work):
    threads = [threading.Thread(target=work, args=(seat,)) for seat in range(count)]
    for thread in threads:
        thread.start()
    return threads


def pairs(count, name=1000):
    started = time.monotonic_ns()
    for _ in range(count):
        with lock(name):
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
        while time.monotonic_ns() < end:
            with lock(1):
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
        time.sleep(0.1)
        started = time.monotonic_ns()
    for thread in threads:
        thread.join()
    return f"{time.monotonic_ns() - started} {' '.join(served)}"


def hold(number):
    parent = os.getppid()
    with lock(2000 + number):
        print("held", flush=True)
        while os.getppid() == parent:
            time.sleep(0.1)


REQUESTS = {"pairs": pairs, "many": many, "turns": turns, "queue": queue, "hold": hold}

for line in sys.stdin:
    request, *numbers = line.split()
    print(REQUESTS[request](*map(int, numbers)), flush=True)
