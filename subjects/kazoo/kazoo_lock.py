# The lock of kazoo, a client of ZooKeeper: the first in a line of nodes that end with the session of their process. Kazoo keeps the session
# alive while the process runs. Its documentation recommends to watch for the states LOST and SUSPENDED: this program takes all its locks
# for lost in either.
import json, sys
from urllib.parse import urlsplit

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, LockTimeout


def say(**reply):
    # In one piece, because kazoo's thread speaks, too.
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def connect(endpoints, ttl_ms):
    client = KazooClient(",".join(endpoint.netloc for endpoint in endpoints), timeout=ttl_ms / 1000)
    client.add_listener(lambda state: state in (KazooState.LOST, KazooState.SUSPENDED) and lose_all())
    client.start(timeout=20)
    return client


def lose_all():
    for hold in [hold for hold in holds if hold not in lost]:
        lost.add(hold)
        say(type="lost", hold=hold)


def acquire(key, wait):
    lock = client.Lock(f"{base}/{space}-{key}")
    try:
        taken = lock.acquire(blocking=False) if wait == 0 else lock.acquire(timeout=wait)
    except LockTimeout:
        taken = False
    return lock if taken else None


def release(hold):
    try:
        # Kazoo reports whether it had the lock; its node may be gone all the same.
        return holds[hold].release() is not False and hold not in lost
    except KazooException:
        return False


holds, lost = {}, set()
for line in sys.stdin:
    ask = json.loads(line)
    kind, op = ask["type"], ask.get("op")
    if kind == "init":
        endpoints = [urlsplit(endpoint) for endpoint in ask["endpoints"] if endpoint.startswith("zk://")]
        if ask["resource"] != "number":
            say(type="error", definite=True, message="this lock cannot buy: use crash, deadlock or trial")
            break
        base, space = endpoints[0].path.rstrip("/"), endpoints[0].fragment
        client = connect(endpoints, ask["ttl_ms"])
        say(type="init_ok")
    elif kind == "acquire":
        try:
            lock = acquire(ask["key"], ask["wait_ms"] / 1000)
        except KazooException as error:
            say(type="error", op=op, definite=False, message=repr(error))
            continue
        if lock is None:
            say(type="refused", op=op)
        else:
            hold = len(holds) + 1
            say(type="acquired", op=op, hold=hold)
            # If the connection was lost before this line, the next check reports it.
            holds[hold] = lock
            if client.state != KazooState.CONNECTED:
                lose_all()
    elif kind == "step":
        say(type="declined" if ask["hold"] in lost else "stepped", op=op)
    elif kind == "release":
        say(type="released", op=op, outcome="released" if release(ask["hold"]) else "already_lost")
    elif kind == "shutdown":
        break
    else:
        say(type="error", op=op, definite=True, message=f"cannot do: {kind}")
