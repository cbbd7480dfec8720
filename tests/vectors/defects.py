"""What must be refused: messages, tallies and values with one defect each, and the reason that a refusal names."""

import copy
import json

from cases import BATCH_ID, METRICS, reports_of, tallied
from wire import as_json, metric_hash, sealed


def bad_packed():
    """Messages with one defect each. Unless the checksum is the defect it is right, so that the defect is reached."""
    flag = METRICS["flag"]
    short = bytes.fromhex(metric_hash(flag))[:8]

    def entry(count, epoch=2968, name=short):
        return name + epoch.to_bytes(4, "little", signed=True) + count.to_bytes(4, "little")

    def of(metric, cohort, bits, size=1):
        name = bytes.fromhex(metric_hash(METRICS[metric]))[:8]
        return sealed(BATCH_ID, 1, entry(1, name=name) + cohort.to_bytes(size, "little") + bits)

    body = entry(1) + b"\0\1"
    good = sealed(BATCH_ID, 1, body)
    rows = [
        ("no bytes", b"", "malformed"),
        ("a header cut short", good[:31], "malformed"),
        ("another magic", sealed(BATCH_ID, 1, body, magic=b"HUBC"), "malformed"),
        ("version 2", sealed(BATCH_ID, 1, body, version=2), "version-unsupported"),
        ("flags", sealed(BATCH_ID, 1, body, flags=1), "malformed"),
        ("body_length too large", sealed(BATCH_ID, 1, body, body_length=len(body) + 1), "malformed"),
        ("a byte after the end", good + b"\0", "malformed"),
        ("wrong checksum", sealed(BATCH_ID, 1, body, crc_error=1), "malformed"),
        ("a flipped bit in the body", good[:-1] + b"\0", "malformed"),
        ("no blocks", sealed(BATCH_ID, 0, b""), "malformed"),
        ("a table longer than the message", sealed(BATCH_ID, 2, body), "malformed"),
        ("too many blocks", sealed(BATCH_ID, 4097, body), "malformed"),
        ("a block without reports", sealed(BATCH_ID, 1, entry(0)), "malformed"),
        ("cohorts beyond the end", sealed(BATCH_ID, 1, entry(3) + b"\0\1"), "malformed"),
        ("vectors beyond the end", sealed(BATCH_ID, 1, entry(2) + b"\0\0\1"), "malformed"),
        ("a count of four thousand million", sealed(BATCH_ID, 1, entry(2**32 - 1) + b"\0\1"), "malformed"),
        ("bytes that no block owns", sealed(BATCH_ID, 1, body + b"\0"), "malformed"),
        ("two blocks of one metric and epoch", sealed(BATCH_ID, 2, entry(1) * 2 + b"\0\1" * 2), "malformed"),
        ("an unknown metric", sealed(BATCH_ID, 1, entry(1, name=b"\xff" * 8) + b"\0\1"), "metric-unknown"),
        ("a cohort that a flag does not have", of("flag", 1, b"\1"), "report-impossible"),
        ("a cohort beyond a string's", of("string", 128, bytes(8)), "report-impossible"),
        ("a cohort of two bytes beyond a string's", of("string_many_cohorts", 512, bytes(2), 2), "report-impossible"),
        ("a level that a tree does not have", of("range", 3, bytes(8)), "report-impossible"),
        ("an unused bit that is set", of("flag", 0, b"\2"), "report-impossible"),
        ("an unused bit of a level that is set", of("range", 0, b"\x10"), "report-impossible"),
        ("a k-ary report without a bit", of("choice_kary", 0, b"\0"), "report-impossible"),
        ("a k-ary report with two bits", of("choice_kary", 0, b"\3"), "report-impossible"),
        ("a subset report with a bit too few", of("choice_subset", 0, b"\3\0"), "report-impossible"),
        ("a subset report with a bit too many", of("choice_subset", 0, b"\17\0"), "report-impossible"),
    ]
    return [{"about": about, "packed": message.hex(), "reason": reason} for about, message, reason in rows]


DEEP = {"about": "nested a hundred thousand deep", "utf8": "", "then_repeated": ["[", 100_000]}


BAD_TEXTS = {
    "a key twice": ("malformed", lambda text: text[:-1] + ', "version": 1}'),
    "a key of a report twice": ("malformed", lambda text: text.replace('"cohort"', '"epoch": 2968, "cohort"')),
    "a key twice, once written with an escape": ("malformed", lambda text: text[:-1] + ', "v\\u0065rsion": 1}'),
    "something behind the message": ("malformed", lambda text: text + " {}"),
    "an epoch with an exponent": ("malformed", lambda text: text.replace("2968", "2968e0")),
    "an epoch that is no number": ("malformed", lambda text: text.replace("2968", "NaN")),
    "a version with a fraction": ("version-unsupported", lambda text: text.replace('"version": 1', '"version": 1.0')),
}


def bad_json():
    good = as_json(BATCH_ID, reports_of([("flag", 2968, 1)]))
    kary = as_json(BATCH_ID, reports_of([("choice_kary", 2968, 1)]))
    subset = as_json(BATCH_ID, reports_of([("choice_subset", 682, 1)]))
    rows = []

    def bad(about, reason, text):
        form = {"utf8": text} if isinstance(text, str) else {"hex": text.hex()}
        rows.append({"about": about, **form, "reason": reason})

    def edited(about, reason, edit, message=good):
        message = copy.deepcopy(message)
        edit(message, message["reports"][0])
        bad(about, reason, json.dumps(message))

    text = json.dumps(good)
    bad("no bytes", "malformed", "")
    bad("half a message", "malformed", text[: len(text) // 2])
    bad("not UTF-8", "malformed", text.encode().replace(b"flag", b"fl\xffg"))
    bad("UTF-16", "malformed", text.encode("utf-16"))
    bad("a byte order mark", "malformed", b"\xef\xbb\xbf" + text.encode())
    bad("a list", "malformed", f"[{text}]")
    rows.append({**DEEP, "reason": "malformed"})
    rows.append({"about": "more than 1 MiB", "utf8": text, "then_repeated": [" ", 2**20], "reason": "too-large"})
    for about, (reason, edit) in BAD_TEXTS.items():
        bad(about, reason, edit(text))
    edited("version 2", "version-unsupported", lambda top, _: top.update(version=2))
    edited("version true", "version-unsupported", lambda top, _: top.update(version=True))
    edited("a key too many", "malformed", lambda top, _: top.update(sent="today"))
    edited("no batch_id", "malformed", lambda top, _: top.pop("batch_id"))
    edited("a short batch_id", "malformed", lambda top, _: top.update(batch_id="00"))
    edited("a batch_id in capitals", "malformed", lambda top, _: top.update(batch_id="FF" * 16))
    edited("no reports", "malformed", lambda top, _: top.update(reports=[]))
    edited("reports that are none", "malformed", lambda top, _: top.update(reports=[1, 2]))
    edited("a report without bits", "malformed", lambda _, report: report.pop("bits"))
    edited("a report with a value", "malformed", lambda _, report: report.update(value=True))
    edited("an unknown metric", "metric-unknown", lambda _, report: report.update(metric_hash="00" * 16))
    edited(
        "a hash that is right in its first half only",
        "metric-unknown",
        lambda _, report: report.update(metric_hash=report["metric_hash"][:16] + "00" * 8),
    )
    edited("a name that is not the hash's", "malformed", lambda _, report: report.update(metric="flat"))
    edited("an epoch in text", "malformed", lambda _, report: report.update(epoch="2026-W47"))
    edited("an epoch beyond 32 bits", "report-impossible", lambda _, report: report.update(epoch=2**31))
    edited("an epoch with a fraction", "malformed", lambda _, report: report.update(epoch=2968.0))
    edited("a cohort that a flag does not have", "report-impossible", lambda _, report: report.update(cohort=1))
    edited("a negative cohort", "report-impossible", lambda _, report: report.update(cohort=-1))
    edited("a cohort true", "malformed", lambda _, report: report.update(cohort=True))
    edited("bits as a number", "malformed", lambda _, report: report.update(bits=1))
    edited("bits of two bytes", "malformed", lambda _, report: report.update(bits="0100"))
    edited("bits of one digit", "malformed", lambda _, report: report.update(bits="1"))
    edited("an unused bit that is set", "report-impossible", lambda _, report: report.update(bits="02"))
    edited("a k-ary report without a bit", "report-impossible", lambda _, r: r.update(bits="00"), kary)
    edited("a k-ary report with two bits", "report-impossible", lambda _, r: r.update(bits="03"), kary)
    edited("a subset report with a bit too few", "report-impossible", lambda _, r: r.update(bits="0300"), subset)
    edited("a subset report with a bit too many", "report-impossible", lambda _, r: r.update(bits="0f00"), subset)
    return rows


BAD_ACCUMULATIONS = {
    "an accumulation that is none": lambda metric: metric.update(accumulate="mean"),
    "an accumulation that its kind does not have": lambda metric: metric.update(accumulate="any"),
    "the default accumulation, said": lambda metric: metric.update(accumulate="first"),
    "a segment of nothing": lambda metric: metric.update(segment={}),
    "a segment that is a list": lambda metric: metric.update(segment=["linux"]),
    "a segment with a number": lambda metric: metric.update(segment={"release": 2}),
    "a segment with an empty value": lambda metric: metric.update(segment={"release": ""}),
    "a segment with a space at an end": lambda metric: metric.update(segment={"release": "2.1 "}),
    "a segment's value of 65 characters": lambda metric: metric.update(segment={"release": 65 * "2"}),
    "a segment with a key in capitals": lambda metric: metric.update(segment={"Release": "2.1"}),
}
BAD_SUBSETS = {
    "a subset shown every week": lambda metric: metric.update(every="week"),
    "a subset of all": lambda metric: metric["permanent"].update(size=10),
    "a subset of one": lambda metric: metric["permanent"].update(size=1),
    "a subset that tells nothing": lambda metric: metric["permanent"].update(held=metric["permanent"]["other"]),
    "a subset that tells all": lambda metric: metric["permanent"].update(other=0),
    "a subset beyond 48 bits": lambda metric: metric["permanent"].update(held=2**43),
    "a subset of other categories": lambda metric: metric["permanent"].update(categories=11),
    "a subset of a million": lambda metric: metric["permanent"].update(categories=10**6, size=10**5),
    "a subset that is noised again": lambda metric: metric["instantaneous"].update(when_one="3/4", when_zero="1/4"),
}
BAD_HISTORIES = {
    "a history beside two channels": lambda metric: metric.update(METRICS["choice_kary"] | metric),
    "a history without its threshold": lambda metric: metric["history"].pop("threshold"),
    "a threshold beyond all flags": lambda metric: metric["history"].update(threshold=5),
    "a history that tells nothing": lambda metric: metric["history"].update(above="1/1024"),
    "a history that tells all": lambda metric: metric["history"].update(above="1"),
    "a history not in steps of 2^-24": lambda metric: metric["history"].update(above="2/3"),
    "a history of other categories": lambda metric: metric["history"].update(categories=5),
    "a history of no categories": lambda metric: metric["history"].update(categories=0),
    "a history of categories and bits": lambda metric: metric["history"].update(chance="1/4"),
    "a history of a million answers": lambda metric: metric["history"].update(answers=10**6),
    "a history without a period": lambda metric: metric["history"].update(hold=0),
    "a history that is asked once": lambda metric: metric.update(every="once"),
}


def no_crosses(redefined):
    for about, edit in BAD_CROSSES.items():
        redefined(about, lambda metric, edit=edit: edit(metric["shape"]["factors"]), "cross")


BAD_CROSSES = {
    "a cross of one": lambda factors: factors.pop(),
    "a cross of three": lambda factors: factors.append({**factors[1], "name": "third"}),
    "a cross of a metric with itself": lambda factors: factors.__setitem__(1, factors[0]),
    "a factor without a name": lambda factors: factors[0].pop("name"),
    "a factor with a key too many": lambda factors: factors[0].update(why="because"),
    "a factor that says first": lambda factors: factors[0].update(accumulate="first"),
    "a factor that adds flags up": lambda factors: factors[1].update(accumulate="sum"),
    "a factor that is a string": lambda factors: factors[0].update(
        kind="string", shape={"num_bits": 1, "num_hashes": 1, "num_cohorts": 1}
    ),
    "a cross of crosses": lambda factors: factors[0].update(kind="cross", shape={"factors": copy.deepcopy(factors)}),
    "more than 256 cells": lambda factors: factors[0]["shape"].update(choices=[str(i) for i in range(128)]),
    "another number of cells than the channel has": lambda factors: factors[0]["shape"]["choices"].pop(),
    "two cells of one name": lambda factors: factors[0]["shape"]["choices"].__setitem__(0, "absent"),
}
BAD_SETS = {
    "more items a report than there are": lambda metric: metric["shape"].update(items_per_report=6),
    "an item twice": lambda metric: metric["shape"].update(items=["a", "b", "a"]),
    "a set whose first record counts": lambda metric: metric.pop("accumulate"),
}


BAD_JOINT_SETS = {
    "items drawn together for two answers": lambda metric: metric["history"].update(answers=2),
    "items drawn together in one of two epochs": lambda metric: metric["history"].update(hold=2),
}


BAD_SAMPLES = {
    "a sample of nobody": (lambda metric: metric.update(sample="0"), "flag"),
    "a sample of all, said": (lambda metric: metric.update(sample="1"), "flag"),
    "a sample of more than all": (lambda metric: metric.update(sample="11/10"), "flag"),
    "a sample not in lowest terms": (lambda metric: metric.update(sample="2/20"), "flag_sampled"),
}


BAD_RESERVES = {
    "a reserve of nothing, said": (lambda metric: metric["shape"].update(reserve=0), "choice_kary"),
    "a reserve below nothing": (lambda metric: metric["shape"].update(reserve=-1), "choice_reserve"),
    "a reserve without categories": (lambda metric: metric["shape"].update(reserve=4), "choice_reserve"),
    "names within the shape": (lambda metric: metric["shape"].update(named=["rust"]), "choice_reserve"),
    "no names, said": (lambda metric: metric.update(named=[]), "choice_reserve"),
    "more names than spare places": (lambda metric: metric.update(named=["1", "2", "3", "4"]), "choice_reserve"),
    "a name that is a choice already": (lambda metric: metric.update(named=["c"]), "choice_reserve"),
    "one name for two places": (lambda metric: metric.update(named=["x", "x"]), "set_reserve"),
    "names without a reserve": (lambda metric: metric.update(named=["x"]), "set"),
    "names of a flag": (lambda metric: metric.update(named=["x"]), "flag"),
    "more items a report than had names from the start": (
        lambda metric: metric["shape"].update(items_per_report=4),
        "set_reserve",
    ),
}


BAD_POINTS = {
    "two points that are said": (lambda metric: metric["shape"].update(points=2), "mean"),
    "one point": (lambda metric: metric["shape"].update(points=1), "mean_of_three_points"),
    "bits for three points": (lambda metric: metric["shape"].update(points=3), "mean"),
    "four points with three categories": (lambda metric: metric["shape"].update(points=4), "mean_of_three_points"),
    "absence apart without a category": (lambda metric: metric["shape"].update(absent="apart"), "mean_of_three_points"),
    "absence apart of one bit": (lambda metric: metric["shape"].update(absent="apart"), "mean"),
    "absence in another word": (lambda metric: metric["shape"].update(absent="aside"), "mean_apart"),
    "a sum with absence apart": (lambda metric: metric.update(accumulate="sum"), "mean_apart"),
}


def no_definitions(redefined):
    no_crosses(redefined)
    redefined("an unknown kind", lambda metric: metric.update(kind="total"))
    redefined("a name with capitals", lambda metric: metric.update(name="Histogram"))
    redefined("a cadence that is none", lambda metric: metric.update(every="hour"))
    for key, value in (("discover", False), ("alphabet", "latin"), ("num_cohorts", 16)):
        redefined(f"a discovery with {key} {value}", lambda m, x=(key, value): m["shape"].update([x]), "discovery")


def twice():
    return {"about": "a key twice", "utf8": json.dumps(tallied([("histogram", 2968, 5)]))[:-1] + ', "version": 1}'}


def bad_tallies():
    rows = []

    def edited(about, edit, name="histogram"):
        found = copy.deepcopy(tallied([(name, 2968, 5)]))
        edit(found, found["epochs"][0])
        rows.append({"about": about, "utf8": json.dumps(found)})

    def redefined(about, edit, name="histogram"):
        def both(top, _):
            edit(top["metric"])
            top["metric_hash"] = metric_hash(top["metric"])

        edited(about, both, name)

    rows += [{"about": "no bytes", "utf8": ""}, {"about": "a list", "utf8": "[]"}, DEEP, twice()]
    edited("another format", lambda top, _: top.update(format="csv"))
    edited("version 2", lambda top, _: top.update(version=2))
    edited("version true", lambda top, _: top.update(version=True))
    edited("a key too many", lambda top, _: top.update(comment="mine"))
    edited("no metric", lambda top, _: top.pop("metric"))
    edited("a hash that is not its metric's", lambda top, _: top.update(metric_hash="00" * 16))
    edited("a metric changed after hashing", lambda top, _: top["metric"].update(every="day"))
    no_definitions(redefined)
    for about, change in BAD_ACCUMULATIONS.items():
        redefined(about, change)
    redefined("a key too many in the metric", lambda metric: metric.update(why="because"))
    redefined("edges that descend", lambda metric: metric["shape"]["edges"].reverse())
    redefined("edges as numbers", lambda metric: metric["shape"].update(edges=[-5, 0, 1, 10, 100]))
    redefined("an edge not in lowest terms", lambda metric: metric["shape"]["edges"].__setitem__(2, "2/4"))
    redefined("more buckets a report than there are", lambda metric: metric["shape"].update(buckets_per_report=5))
    for about, edit in BAD_SETS.items():
        redefined(about, edit, "set")
    for about, (edit, name) in {**BAD_POINTS, **BAD_RESERVES, **BAD_SAMPLES}.items():
        redefined(about, edit, name)
    redefined("a channel that gives certainty", lambda metric: metric["permanent"].update(when_one="1"))
    redefined("a channel not in steps of 2^-24", lambda metric: metric["permanent"].update(when_one="2/3"))
    redefined("a channel the wrong way round", lambda metric: metric["permanent"].update(when_one="1/1024"))
    for bad, name in ((BAD_SUBSETS, "choice_subset"), (BAD_JOINT_SETS, "set_once"), (BAD_HISTORIES, "choice_history")):
        for about, edit in bad.items():
            redefined(about, edit, name)
    redefined("a k-ary channel for bits", lambda m: m.update(permanent=METRICS["choice_kary"]["permanent"]))
    edited("a lone surrogate", lambda top, _: top["metric"]["shape"].update(unit="\ud800"))
    edited("no epochs", lambda top, _: top.update(epochs=None))
    edited("one epoch twice", lambda top, _: top.update(epochs=top["epochs"] * 2))
    edited("an epoch beyond 32 bits", lambda _, epoch: epoch.update(epoch=2**31))
    edited("an epoch in text", lambda _, epoch: epoch.update(epoch="2026-W47"))
    edited("a key too many in an epoch", lambda _, epoch: epoch.update(note=1))
    edited("a cohort too few", lambda _, epoch: epoch["num_reports"].pop())
    edited("a row too few", lambda _, epoch: epoch["bit_counts"].pop())
    edited("a bit too many", lambda _, epoch: epoch["bit_counts"][0].append(0))
    edited("more bits than reports", lambda _, epoch: epoch["bit_counts"][0].__setitem__(0, 6))
    edited("a negative count", lambda _, epoch: epoch["bit_counts"][0].__setitem__(0, -1))
    edited("a count with a fraction", lambda _, epoch: epoch["bit_counts"][0].__setitem__(0, 1.0))
    edited("a count true", lambda _, epoch: epoch["num_reports"].__setitem__(0, True))
    edited("a count beyond 63 bits", lambda _, epoch: epoch["num_reports"].__setitem__(0, 2**63))
    edited("k-ary counts that do not add up", lambda _, e: e["num_reports"].__setitem__(0, 6), "choice_kary")
    edited("subset counts that do not add up", lambda _, e: e["num_reports"].__setitem__(0, 6), "choice_subset")
    return rows


# --- values without a mask ----------------------------------------------------------------------------------------

BAD_VALUES = [
    ("flag", {"text": "yes"}),
    ("flag", {"number": "1"}),
    ("choice_kary", {"text": "C"}),
    ("choice_kary", {"text": ""}),
    ("choice_kary", {"number": "0"}),
    ("choice_texts", {"text": "E\u0301"}),
    ("string", {"number": "1"}),
    ("string", {"utf16": "d800"}),
    ("string", {"utf16": "0061dc00"}),
    *(("discovery", {"text": text}) for text in ("A", "a b", "\u00e9", "a\n")),
    ("discovery", {"number": "1"}),
    ("discovery", {"utf16": "0061d800"}),
    *(("discovery_of_bytes", {"text": text}) for text in ("a\u0000", "\u001b[2J", "\u0085", "\u007f")),
    ("discovery_of_bytes", {"utf16": "d800"}),
    *(("discovery_of_ascii", {"text": text}) for text in ("\t", "\u00e9")),
    *(("set", {"texts": texts}) for texts in (["Export"], ["export", ""], ["e\u0301"])),
    ("set", {"number": "1"}),
    ("choice_reserve", {"text": "rust"}),
    ("choice_reserve", {"text": ""}),
    ("set_reserve", {"texts": ["spell"]}),
    *((name, {"text": "12"}) for name in ("mean", "histogram", "range")),
    *((name, {"flag": True}) for name in ("mean", "histogram", "range")),
    *((name, {"float": value}) for name in ("mean", "histogram", "range") for value in ("nan", "inf", "-inf")),
]


def bad_values():
    return [{"metric": name, "value": value} for name, value in BAD_VALUES]
