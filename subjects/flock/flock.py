"""The file lock of the operating system. It lasts until it is released, and ends at once when its process ends."""
import fcntl, hashlib, json, sys, time


def take(file, wait_ms):
    give_up = time.monotonic() + wait_ms / 1000
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB) is None
        except BlockingIOError:
            if time.monotonic() >= give_up:
                return False
            time.sleep(0.005)


files = {}
for line in sys.stdin:
    ask = json.loads(line)
    match ask["type"]:
        case "init":
            path, answer = ask["endpoints"][0].removeprefix("sqlite:"), {"type": "init_ok"}
        case "acquire":
            file, hold = open(f"{path}.{hashlib.sha256(ask['key'].encode()).hexdigest()}", "w"), len(files) + 1
            answer = {"type": "refused"}
            if take(file, ask["wait_ms"]):
                files[hold], answer = file, {"type": "acquired", "hold": hold}
        case "step":
            answer = {"type": "stepped"}
        case "release":
            files[ask["hold"]].close()
            answer = {"type": "released", "outcome": "released"}
        case "shutdown":
            break
        case other:
            answer = {"type": "error", "definite": True, "message": f"cannot do: {other}"}
    print(json.dumps(answer | ({"op": ask["op"]} if "op" in ask else {})), flush=True)
