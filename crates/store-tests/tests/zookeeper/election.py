"""kazoo's own election. Arguments: address, path of the election, value. Says when it leads, answers who leads, and resigns on request."""

import sys
import threading

from kazoo.client import KazooClient

address, path, value = sys.argv[1:]
client = KazooClient(hosts=address)
client.start()
election = client.Election(path, value)
resigns = threading.Event()


def say(line):
    print(line, flush=True)


def lead():
    say("leading")
    resigns.wait()


candidate = threading.Thread(target=election.run, args=(lead,), daemon=True)
candidate.start()
for request in sys.stdin:
    if "resign" in request:
        break
    say("leader " + election.contenders()[0])
resigns.set()
election.cancel()
candidate.join()
client.stop()
