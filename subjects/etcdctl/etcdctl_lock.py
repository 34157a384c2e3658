# The lock of etcd's own command: `etcdctl lock NAME` takes the lock, keeps its lease alive, and releases the lock when it is told to end.
# It waits in a line. It ends by itself when its lease is over.
import json, os, re, select, subprocess, sys
from pathlib import Path
from urllib.parse import urlsplit

# For how long a request that does not wait leaves the command time to connect, in seconds.
ONE_ATTEMPT = 0.7


def say(**reply):
    print(json.dumps(reply), flush=True)


def take(key, wait):
    """Returns the command that holds the lock, or None."""
    name = f"{space}/{key}"
    command = ["etcdctl", f"--endpoints={servers}", "lock", f"--ttl={ttl}", name]
    lock = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "ETCDCTL_API": "3"})
    ready, _, _ = select.select([lock.stdout], [], [], max(wait, ONE_ATTEMPT))
    # It prints the key of the lock when it has the lock.
    if ready and lock.stdout.readline():
        return lock
    end(lock)
    return None


def end(lock):
    """Returns whether the command released the lock: it had not ended before."""
    is_running = lock.poll() is None
    if is_running:
        lock.terminate()
    lock.wait()
    return is_running


def mismatch():
    """Returns what is wrong if the manifest describes another version than the one that is installed."""
    manifest = Path(__file__).with_name("subject.toml").read_text()
    described = re.search('^version = "(.*)"', manifest, re.M)[1]
    try:
        said = subprocess.run(["etcdctl", "version"], capture_output=True, text=True, env={**os.environ, "ETCDCTL_API": "3"}).stdout
    except FileNotFoundError:
        said = ""
    found = re.search("etcdctl version: (.*)", said)
    # A later point release behaves alike.
    if found and found[1].rsplit(".", 1)[0] == described.rsplit(".", 1)[0]:
        return None
    return f"subject.toml describes etcdctl {described}, and {found[1] if found else 'none'} is installed"


def next_line():
    """Waits for a request, and tells meanwhile which locks are lost."""
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        for hold, lock in holds.items():
            if hold not in told and lock.poll() is not None:
                told.add(hold)
                say(type="lost", hold=hold)
    return sys.stdin.readline()


holds, told = {}, set()
while line := next_line():
    ask = json.loads(line)
    kind, op = ask["type"], ask.get("op")
    if kind == "init":
        endpoints = [urlsplit(endpoint) for endpoint in ask["endpoints"] if endpoint.startswith("etcd://")]
        if ask["resource"] != "number":
            say(type="error", definite=True, message="this lock cannot buy: use crash, deadlock or trial")
            break
        if wrong := mismatch():
            say(type="error", definite=True, message=wrong)
            break
        servers = ",".join(endpoint.netloc for endpoint in endpoints)
        space, ttl = endpoints[0].fragment, -(-ask["ttl_ms"] // 1000)  # Whole seconds, and no fewer than asked for.
        say(type="init_ok")
    elif kind == "acquire":
        lock = take(ask["key"], ask["wait_ms"] / 1000)
        if lock is None:
            say(type="refused", op=op)
        else:
            holds[len(holds) + 1] = lock
            say(type="acquired", op=op, hold=len(holds))
    elif kind == "step":
        is_held = holds[ask["hold"]].poll() is None
        say(type="stepped" if is_held else "declined", op=op)
    elif kind == "release":
        told.add(ask["hold"])
        say(type="released", op=op, outcome="released" if end(holds[ask["hold"]]) else "already_lost")
    elif kind == "shutdown":
        break
    else:
        say(type="error", op=op, definite=True, message=f"cannot do: {kind}")
for lock in holds.values():
    end(lock)
