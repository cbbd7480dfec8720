"""Pair tallies that must be refused, with one defect each. The hash fits the pair unless it is the defect."""

import copy
import json

from cases import METRICS, RELEASE
from defects import DEEP
from pairs import batches_of, pair_tally
from wire import metric_hash


def bad_pair_tallies():
    rows = [{"about": "no bytes", "utf8": ""}, {"about": "a list", "utf8": "[]"}, DEEP]
    good = {name: pair_tally(name, batches_of(name, "bad")) for name in ("flag_and_choice", "bits_and_levels")}

    def edited(about, edit, name="flag_and_choice"):
        found = copy.deepcopy(good[name])
        edit(found, found["epochs"][0])
        rows.append({"about": about, "utf8": json.dumps(found)})

    def repaired(about, *metrics, **more):
        def change(top, _):
            top["pair"] = {
                "name": "both",
                "metrics": [m if isinstance(m, dict) else METRICS[m] for m in metrics],
                **more,
            }
            top.update(pair_hash=metric_hash(top["pair"]), epochs=[])

        edited(about, change)

    edited("another format", lambda top, _: top.update(format="hubbub.tally"))
    edited("version 2", lambda top, _: top.update(version=2))
    edited("a key too many", lambda top, _: top.update(comment="mine"))
    edited("no pair", lambda top, _: top.pop("pair"))
    edited("a hash that is not its pair's", lambda top, _: top.update(pair_hash="00" * 16))
    edited("the metrics the other way round", lambda top, _: top["pair"]["metrics"].reverse())
    repaired("one metric", "flag")
    repaired("three metrics", "flag", "choice_kary", "choice_texts")
    repaired("a metric with itself", "flag", "flag")
    repaired("a key too many in the pair", "flag", "choice_kary", why="because")
    repaired("a name with capitals", "flag", "choice_kary", name="Both")
    repaired("a name that is no text", "flag", "choice_kary", name=1)
    repaired("another cadence", "flag", "mean")
    repaired("another segment", "flag", {**METRICS["choice_kary"], "segment": RELEASE})
    repaired("two that ask for parts", "histogram", "range")
    repaired("two with a history", "flag_history", "choice_history")
    repaired("a subset", "choice_with_absent", "choice_subset")
    repaired("a metric that is none", "flag", {"name": "it"})
    wide = {"kind": "string", "shape": {"num_bits": 1024, "num_hashes": 1, "num_cohorts": 1}}
    bits = METRICS["choice_rappor"]
    repaired("too many cells", {**bits, "name": "a", **wide}, {**bits, "name": "b", **wide})
    bad_counts(edited)
    return rows


def bad_counts(edited):
    edited("no epochs", lambda top, _: top.update(epochs=None))
    edited("one epoch twice", lambda top, _: top.update(epochs=top["epochs"][:1] * 2))
    edited("an epoch beyond 32 bits", lambda _, epoch: epoch.update(epoch=2**31))
    edited("a key too few in an epoch", lambda _, epoch: epoch.pop("both"))
    edited("a cohort pair too many", lambda _, epoch: epoch["num_batches"].append(0))
    edited("a table too few", lambda _, epoch: epoch["both"].pop())
    edited("a bit too many", lambda _, epoch: epoch["second"][0].append(0))
    edited("a row of a table too few", lambda _, epoch: epoch["both"][0].pop())
    edited("a column of a table too few", lambda _, epoch: epoch["both"][0][0].pop())
    edited("rows that are no lists", lambda _, epoch: epoch.update(first=[3]))
    edited("a negative count", lambda _, epoch: epoch["both"][0][0].__setitem__(0, -1))
    edited("a count with a fraction", lambda _, epoch: epoch["both"][0][0].__setitem__(0, 1.0))
    edited("a count true", lambda _, epoch: epoch["num_batches"].__setitem__(0, True))
    edited("a count beyond 63 bits", lambda _, epoch: epoch["num_batches"].__setitem__(0, 2**63))
    edited("more of a bit than batches", lambda _, epoch: epoch["first"][0].__setitem__(0, 99))
    edited("k-ary counts that do not add up", lambda _, epoch: epoch["num_batches"].__setitem__(0, 99))
    edited("more of two bits than of one", lambda _, epoch: epoch["both"][0][0].__setitem__(0, 99))
    edited("rows that do not add up", lambda _, epoch: epoch["first"][0].__setitem__(0, 0))
    edited("two bits that must have met", _never_met, "bits_and_levels")


def _never_met(_, epoch):
    """Both bits in all batches, and never together."""
    total = epoch["num_batches"][0]
    epoch["first"][0][0] = epoch["second"][0][0] = total
    epoch["both"][0] = [[0] * len(row) for row in epoch["both"][0]]
