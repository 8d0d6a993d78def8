"""Answers requests with what they bring, and measures how long messages were on their way.

`echo` is answered with the payload; a message on `clock` holds the monotonic time in nanoseconds at which
it was published; `report` is answered with how long those took, and forgets them.
"""

from __future__ import annotations

import json
import sys
import time

from raw import Raw


def main(port: int) -> None:
    with Raw(port) as raw:
        raw.send(b"SUB echo 1\r\nSUB clock 2\r\nSUB report 3\r\n")
        raw.ping()
        print("ready", flush=True)
        delays: list[int] = []
        while True:
            answers = []
            for subject, reply, payload in raw.receive():
                if subject == b"clock":
                    delays.append(time.monotonic_ns() - int(payload))
                    continue
                if subject == b"report":
                    payload, delays = json.dumps(delays).encode(), []
                answers.append(b"PUB %b %d\r\n%b\r\n" % (reply, len(payload), payload))
            if answers:
                raw.send(b"".join(answers))


main(int(sys.argv[1]))
