#!/usr/bin/env python3
"""An external lock that the lab can try: fencepost crash --lock=subjects/lease

A lease in a table of SQLite: it ends after its TTL. A release checks in the same statement that the lock is still its own."""
import json, sqlite3, sys, time, uuid

TAKE = """INSERT INTO my_locks VALUES (:key, :token, :now + :ttl) ON CONFLICT (key) DO UPDATE
          SET token = excluded.token, until = excluded.until WHERE until <= :now"""
RELEASE = "DELETE FROM my_locks WHERE key = ? AND token = ? AND until > ?"


def say(**reply):
    print(json.dumps(reply), flush=True)  # flush every line, or the lab does not see it


def take(key, token, wait_ms):
    """Returns whether the lock was taken, and whether it was contended."""
    give_up, contended = time.monotonic() + wait_ms / 1000, False
    while True:
        now = time.monotonic()  # on Linux, all processes share this clock
        if db.execute(TAKE, {"key": key, "token": token, "now": now, "ttl": ttl}).rowcount == 1:
            return True, contended
        contended = True
        if now >= give_up:
            return False, contended
        time.sleep(0.005)


def release(key, token):
    return db.execute(RELEASE, (key, token, time.monotonic())).rowcount == 1


def buy(ask):
    key, token, asked = ask["product"], str(uuid.uuid4()), time.monotonic()
    taken, contended = take(key, token, ask["wait_ms"])
    waited_ms = (time.monotonic() - asked) * 1000 if contended else 0
    if not taken:
        return {"outcome": "busy", "contended": True, "waited_ms": waited_ms}
    before = db.execute("SELECT units FROM stock WHERE product = ?", (key,)).fetchone()[0]
    after = before - ask["quantity"]
    if after >= 0:
        time.sleep(ask["delay_us"] / 1e6)
        db.execute("UPDATE stock SET units = ? WHERE product = ?", (after, key))
    release(key, token)
    sold = {"outcome": "sold", "after": after} if after >= 0 else {"outcome": "no_stock"}
    return {"before": before, "contended": contended, "waited_ms": waited_ms, **sold}


holds = {}
for line in sys.stdin:
    ask = json.loads(line)
    kind, op = ask["type"], ask.get("op")
    if kind == "init":
        ttl, (scheme, _, path) = ask["ttl_ms"] / 1000, ask["endpoints"][0].partition(":")
        if scheme != "sqlite":
            say(type="error", definite=True, message="this lock lives in SQLite only")
            break
        db = sqlite3.connect(path, timeout=30, isolation_level=None)
        db.execute("CREATE TABLE IF NOT EXISTS my_locks (key TEXT PRIMARY KEY, token TEXT, until REAL)")
        say(type="init_ok")  # its claims are in subject.toml; without the manifest it has none
    elif kind == "acquire":
        token = str(uuid.uuid4())
        taken, contended = take(ask["key"], token, ask["wait_ms"])
        if taken:
            hold = len(holds) + 1
            holds[hold] = (ask["key"], token)
            say(type="acquired", op=op, hold=hold, contended=contended)
        else:
            say(type="refused", op=op)
    elif kind == "step":
        say(type="stepped", op=op)  # the lab executes the step when it reads this line
    elif kind == "release":
        ours = release(*holds[ask["hold"]])
        say(type="released", op=op, outcome="released" if ours else "already_lost")
    elif kind == "purchase":
        say(type="purchased", op=op, **buy(ask))
    elif kind == "shutdown":
        break
    else:
        say(type="error", op=op, definite=True, message=f"cannot do: {kind}")
