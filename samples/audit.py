"""What to do first about captured traffic: python audit.py CAPTURE...

Runs the rules of `nats-dissect audit` and those in audit/, and prints each rule that found something with
its remedy and the command that shows the first evidence, the worst first. Exit status: 0 nothing of level
high or worse; 1 something; 2 it could not be done.
"""

import os
import sys
from itertools import groupby
from pathlib import Path

from dissect.nats.audit import audit
from dissect.nats.errors import DissectError

RULES = Path(__file__).with_suffix("")


def main(captures: list[str]) -> int:
    if not captures or captures[0] in ("-h", "--help"):
        usage = sys.stdout if captures else sys.stderr
        print("audit: usage: audit.py CAPTURE...", file=usage)
        return 0 if captures else 2
    levels = set()
    try:  # findings are ordered by level and rule
        for _, group in groupby(audit(captures, rules=[RULES]), key=lambda finding: finding.rule):
            first, *others = group
            levels.add(first.level)
            print(f"{first.level.upper()} {first.title}: {1 + len(others)}")
            print(f"  first: {first.subject}")
            print(f"  what to do: {first.remedy}")
            if first.follow:
                print(f"  see: {first.follow}")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has gone, as `head` does; Python flushes again at exit
        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), sys.stdout.fileno())
        return 0
    except DissectError as error:
        print(f"audit: {error}", file=sys.stderr)
        return 2
    return 1 if levels & {"high", "critical"} else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
