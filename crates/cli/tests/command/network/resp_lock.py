"""A lock on one Redis server, written with nothing but a socket, for tests of trials that come between a lock and its store.

It is right: the lease counts from the request, its holder stops by its own clock, a release compares and deletes in one step, and an error
is no grant. The words on its command line put one flaw each into it.
"""

import json
import os
import secrets
import socket
import sys
import time

FLAWS = set(sys.argv[1:])
# A folder that keeps the locks instead of the store, if it is named.
ELSEWHERE = next((flaw.removeprefix("elsewhere=") for flaw in FLAWS if flaw.startswith("elsewhere=")), None)
COMPARE_AND_DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
LONGEST_ANSWER_S = 5


class Server:
    """A connection that is opened when it is needed, and dropped when it fails."""

    def __init__(self, host, port):
        self.address = (host, int(port))
        self.stream = None

    def ask(self, *words):
        try:
            if self.stream is None:
                opened = socket.create_connection(self.address, LONGEST_ANSWER_S)
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.stream = opened.makefile("rwb", buffering=0)
            words = [str(word).encode() for word in words]
            self.stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            return self.answer()
        except (OSError, ValueError) as error:
            self.stream = None
            raise ConnectionError(str(error)) from error

    def answer(self):
        line = b""
        while not line.endswith(b"\r\n"):
            byte = self.stream.read(1)
            if not byte:
                raise ConnectionError("the connection was closed")
            line += byte
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise RuntimeError(rest)
        if kind == b"$" and rest != "-1":
            text = b""
            while len(text) < int(rest) + 2:
                text += self.stream.read(int(rest) + 2 - len(text))
            return text[:-2].decode()
        return {b"+": rest, b":": int(rest) if kind == b":" else None}.get(kind)


class Lock:
    def __init__(self, endpoint, ttl_ms):
        address, space = endpoint.removeprefix("redis://").split("#")
        self.server = Server(*address.split(":"))
        self.server.ask("PING")
        self.space, self.ttl_ms = space, ttl_ms
        self.holds = {}
        self.last = 0

    def take(self, name, token):
        if ELSEWHERE:
            return self.take_elsewhere(name)
        if "two-steps" not in FLAWS:
            return self.server.ask("SET", name, token, "NX", "PX", self.ttl_ms) == "OK"
        if self.server.ask("SETNX", name, token) != 1:
            return False
        self.server.ask("PEXPIRE", name, self.ttl_ms)
        return True

    def take_elsewhere(self, name):
        try:
            os.close(os.open(f"{ELSEWHERE}/{name}", os.O_CREAT | os.O_EXCL))
            return True
        except FileExistsError:
            return False

    def acquire(self, key, wait_ms):
        name, token = f"{self.space}:lock:{key}", secrets.token_hex(8)
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            asked = time.monotonic()
            try:
                is_mine = self.take(name, token)
            except ConnectionError:
                if "error-is-grant" not in FLAWS:
                    raise
                is_mine = True
            if is_mine:
                counted_from = time.monotonic() if "from-reply" in FLAWS else asked
                self.last += 1
                self.holds[self.last] = (name, token, counted_from + self.ttl_ms / 1000)
                if "late-grant" not in FLAWS and time.monotonic() > self.holds[self.last][2]:
                    return None
                return self.last
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.004)

    def is_over(self, hold):
        return "never-stops" not in FLAWS and time.monotonic() > self.holds[hold][2]

    def release(self, hold):
        name, token, _ = self.holds.pop(hold)
        if ELSEWHERE:
            os.unlink(f"{ELSEWHERE}/{name}")
            return True
        if "get-then-delete" in FLAWS:
            return self.server.ask("GET", name) == token and self.server.ask("DEL", name) == 1
        return self.server.ask("EVAL", COMPARE_AND_DELETE, 1, name, token) == 1


def answer(lock, request):
    kind = request["type"]
    if kind == "acquire":
        hold = lock.acquire(request["key"], request["wait_ms"])
        return {"type": "refused"} if hold is None else {"type": "acquired", "hold": hold}
    if kind == "step":
        return {"type": "declined" if lock.is_over(request["hold"]) else "stepped"}
    outcome = "released" if lock.release(request["hold"]) else "already_lost"
    return {"type": "released", "outcome": outcome}


def main():
    lock = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["type"] == "shutdown":
            return
        if request["type"] == "init":
            lock, said = Lock(request["endpoints"][0], request["ttl_ms"]), {"type": "init_ok"}
        else:
            try:
                said = answer(lock, request)
            except (ConnectionError, RuntimeError) as error:
                said = {"type": "error", "definite": False, "message": str(error)}
            said["op"] = request["op"]
        print(json.dumps(said), flush=True)


main()
