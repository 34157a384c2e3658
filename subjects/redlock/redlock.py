# Redlock: a lock that a majority of independent Redis servers keeps, each as a key with a token and a TTL. What is left of the lease when
# the majority has answered is how long the lock is valid. A release deletes a key only if it still has the token.
import json, socket, sys, time, uuid
from urllib.parse import urlsplit

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Server:
    """One Redis server, asked over one connection, which is made again after an error."""

    def __init__(self, endpoint, patience):
        url = urlsplit(endpoint)
        self.address, self.patience, self.stream = (url.hostname, url.port or 6379), patience, None
        self.login = [["AUTH", url.username or "default", url.password]] if url.password else []
        self.login += [["SELECT", url.path[1:]]] if url.path[1:] else []

    def ask(self, *words):
        try:
            if self.stream is None:
                self.stream = socket.create_connection(self.address, self.patience).makefile("rwb")
                for login in self.login:
                    self.exchange(login)
            return self.exchange(words)
        except OSError:
            self.stream = None  # the request may have been carried out
            return None

    def exchange(self, words):
        words = [str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)]
        self.stream.write(b"".join(parts))
        self.stream.flush()
        line = self.stream.readline().strip().decode()
        if not line or line[0] == "-":
            raise OSError(line or "the connection ended")
        return None if line[0] == "$" else line[1:]  # these requests are answered with a status, a number, or nothing


def take(key, token):
    """Returns the time until which the lock is valid; None if there is no majority."""
    until = time.monotonic() + ttl_ms / 1000 * 0.99  # the clocks of the servers may be a little faster
    votes = sum(server.ask("SET", f"{space}:{key}", token, "NX", "PX", ttl_ms) == "OK" for server in servers)
    if votes * 2 > len(servers) and time.monotonic() < until:
        return until
    release(key, token)
    return None


def release(key, token):
    gone = sum(server.ask("EVAL", RELEASE, 1, f"{space}:{key}", token) == "1" for server in servers)
    return gone * 2 > len(servers)


def say(**reply):
    print(json.dumps(reply), flush=True)


holds = {}
for line in sys.stdin:
    ask = json.loads(line)
    kind, op = ask["type"], ask.get("op")
    if kind == "init":
        endpoints = [endpoint for endpoint in ask["endpoints"] if endpoint.startswith("redis://")]
        if ask["resource"] != "number":
            say(type="error", definite=True, message="this lock cannot buy: use crash, deadlock or trial")
            break
        ttl_ms, space = ask["ttl_ms"], urlsplit(endpoints[0]).fragment
        servers = [Server(endpoint, ttl_ms / 1000 / 4) for endpoint in endpoints]
        say(type="init_ok")
    elif kind == "acquire":
        token, asked = str(uuid.uuid4()), time.monotonic()
        while not (until := take(ask["key"], token)) and time.monotonic() < asked + ask["wait_ms"] / 1000:
            time.sleep(0.02)
        if until:
            holds[len(holds) + 1] = (ask["key"], token)
            say(type="acquired", op=op, hold=len(holds), valid_ms=(until - asked) * 1000)
        else:
            say(type="refused", op=op)
    elif kind == "step":
        say(type="stepped", op=op)
    elif kind == "release":
        say(type="released", op=op, outcome="released" if release(*holds[ask["hold"]]) else "already_lost")
    elif kind == "shutdown":
        break
    else:
        say(type="error", op=op, definite=True, message=f"cannot do: {kind}")
