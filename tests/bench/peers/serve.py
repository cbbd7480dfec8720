"""The other end of `tests.bench.peer`: runs in a peer's own environment, where hubbub is not installed.

A line of JSON asks, a line of JSON answers; whatever a library prints goes to stderr. Standard library only.
"""

import importlib.metadata
import json
import os
import sys
import time


def serve(calls):
    """Answer until the other side closes its end."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        answers.write(json.dumps(calls[asked.pop("call")](**asked)) + "\n")


def clients_of(cases):
    """The calls by which clients are timed: `cases` makes, for each case, what produces one report."""
    made = {}

    def one(case):
        if case not in made:
            made[case] = cases[case]()
            made[case]()  # compilers and caches are warm after the first report
        return made[case]

    def spent(case, number):
        """Microseconds of CPU a report."""
        report = one(case)
        start = time.process_time()
        for _ in range(number):
            report()
        return (time.process_time() - start) / number * 1e6

    return {"cases": lambda: list(cases), "spent": spent}


def version(distribution):
    return importlib.metadata.version(distribution)
