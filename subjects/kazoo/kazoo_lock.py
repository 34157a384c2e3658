# The lock of kazoo, a client of ZooKeeper: the first in a line of nodes that end with the session of their process. Kazoo keeps the session
# alive while the process runs. Its documentation recommends to watch for the states SUSPENDED and LOST: this program declines all work
# while the connection is SUSPENDED, because it cannot know whether it still has its locks, and takes them for lost when the session is LOST.
import json, re, sys
from pathlib import Path
from urllib.parse import urlsplit

import kazoo
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, LockTimeout


def say(**reply):
    # In one piece, because kazoo's thread speaks, too.
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def connect(endpoints, ttl_ms):
    client = KazooClient(",".join(endpoint.netloc for endpoint in endpoints), timeout=ttl_ms / 1000)
    client.add_listener(lambda state: state == KazooState.LOST and lose_all())
    client.start(timeout=20)
    return client


def described():
    """Returns the version that the manifest describes."""
    manifest = Path(__file__).with_name("subject.toml").read_text()
    return re.search('^version = "(.*)"', manifest, re.M)[1]


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
        if kazoo.__version__ != described():
            say(type="error", definite=True, message=f"subject.toml describes kazoo {described()}, and {kazoo.__version__} is installed")
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
            if client.state == KazooState.LOST:
                lose_all()
    elif kind == "step":
        is_certain = client.state == KazooState.CONNECTED and ask["hold"] not in lost
        say(type="stepped" if is_certain else "declined", op=op)
    elif kind == "release":
        say(type="released", op=op, outcome="released" if release(ask["hold"]) else "already_lost")
    elif kind == "shutdown":
        break
    else:
        say(type="error", op=op, definite=True, message=f"cannot do: {kind}")
