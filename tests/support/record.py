"""Records samples/captures again: `python -m tests.support.record [NAME...]`.

It needs root, the programs in PROGRAMS, both nats-servers and nats-py, and nothing of the product.
Everything happens in a network namespace of its own, so that nobody else's packets are seen, the
ports can be the usual ones, and loopback can have the MTU of an Ethernet: the captures then show
frames across segments as a real network has them.

Without names every capture is recorded. What is known about each goes to truth.json beside them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.paths import CAPTURES, INCIDENTS
from tests.support.scenarios import SCENARIOS
from tests.support.servers import REMEDY, find_server
from tests.support.stage import Stage

TRUTH = CAPTURES / "truth.json"
PROGRAMS = {"tcpdump": "tcpdump", "dumpcap": "tshark", "ip": "iproute2", "unshare": "util-linux"}
PROGRAMS |= {"openssl": "openssl"}
INSIDE = "RECORDING_IN_NAMESPACE"
# Loopback as an Ethernet: no packet above 1500 bytes, also not by segmentation offload.
LOOPBACK = "ip link set dev lo up mtu 1500 gso_max_size 1500 gso_max_segs 1"


def record(names: list[str]) -> None:
    """Run the scenarios, and put their captures and what is true about them into the tree. Nothing more is
    known about captures of incidents."""
    truth = json.loads(TRUTH.read_text()) if TRUTH.exists() else {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="record-") as folder:
            with Stage(Path(folder)) as stage:
                SCENARIOS[name](stage)
            for path in sorted(Path(folder).iterdir()):
                known = path.name in stage.truth or path.suffix == ".keylog"
                target = (CAPTURES if known else INCIDENTS) / path.name
                shutil.move(path, target)
                print(f"{path.name}: {target.stat().st_size} bytes", flush=True)
        truth |= stage.truth
        truth = {file: truth[file] for file in truth if (CAPTURES / file).exists()}
        TRUTH.write_text(compact(truth, 3) + "\n")


def compact(value: object, depth: int) -> str:
    """JSON with one line for each member down to `depth`, so that a diff shows what changed."""
    if not depth or not isinstance(value, dict) or not value:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    members = (f"{json.dumps(key)}: {compact(value[key], depth - 1)}" for key in sorted(value))
    return "{\n" + ",\n".join(members) + "\n}"


def lacking() -> str | None:
    """What is missing for recording, and the remedy; None if all is there."""
    if os.geteuid() != 0:
        return "recording needs root, for tcpdump and a network namespace"
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install {package}"
    if find_server("current") is None:
        return f"no current nats-server: {REMEDY['current']}"
    if find_server("old") is None:
        return f"no old nats-server: {REMEDY['old']}"
    if importlib.util.find_spec("nats") is None:
        return "nats-py is missing: pip install nats-py"
    return None


def main(names: list[str]) -> int:
    problem = lacking()
    for name in names:
        if name not in SCENARIOS:
            problem = f"no scenario {name}; there are: {' '.join(SCENARIOS)}"
    if problem:
        print(problem, file=sys.stderr)
        return 2
    if os.environ.get(INSIDE):
        subprocess.run(LOOPBACK.split(), check=True)
        record(names or list(SCENARIOS))
        return 0
    again = [sys.executable, "-m", "tests.support.record", *names]
    return subprocess.call(["unshare", "--net", *again], env={**os.environ, INSIDE: "1"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
