"""The part of the second implementation for pairs: which cohorts come together, and what is counted (section 8)."""

from fractions import Fraction

from cases import METRICS, RELEASE
from drawing import random_bytes
from wire import as_json, metric_hash, num_cohorts, width

PAIRS = {
    "flag_and_choice": ("flag", "choice_kary"),
    "choice_and_bits": ("choice_texts", "choice_rappor"),
    "two_choices": ("choice_kary", "choice_texts"),
    "levels_and_choice": ("range", "choice_kary"),
    "bits_and_levels": ("choice_rappor", "range"),
    "cohorts_and_cohorts": ("string_parity", "set_rappor"),
    "parts_and_points": ("histogram", "mean_of_three_points"),
    "history_and_choice": ("flag_history", "choice_kary"),
    "of_a_release": ("flag", "choice_kary"),
}
BATCHES = 12


def cohorts_of(metric):
    return num_cohorts(metric["kind"], metric["shape"])


def bits_of(metric, cohort):
    return width(metric["kind"], metric["shape"], cohort)


def one_position(metric):
    """Whether every report has exactly one: a k-ary channel, or a history of as many categories as positions."""
    categories = metric.get("permanent", metric.get("history", {})).get("categories")
    return categories is not None and bits_of(metric, 0) == categories


def pair_of(name):
    metrics = [METRICS[metric] for metric in PAIRS[name]]
    if name == "of_a_release":
        metrics = [{**metric, "segment": RELEASE} for metric in metrics]
    return {"name": name, "metrics": metrics}


def cohort_pairs(pair):
    """By walking along the line: every border of either metric begins another one."""
    counts = [cohorts_of(metric) for metric in pair["metrics"]]
    borders = sorted({Fraction(i, count) for count in counts for i in range(count)})
    return [tuple(int(x * count) for count in counts) for x in borders]


def batches_of(name, part):
    """What some installs send, and then what is not counted: of a relay, of two epochs, of one metric, made up."""
    pair = pair_of(name)
    batches = []
    for number in range(BATCHES):
        x = int.from_bytes(random_bytes(f"{name} {part} {number} x", 8), "big") >> 2
        batches.append([report(pair, at, f"{name} {part} {number}", 2968 + number % 2, x) for at in (0, 1)])
    first, second = [report(pair, at, f"{name} {part} more", 2968, 0) for at in (0, 1)]
    batches += [[first, first, second], [first], [first, (second[0], 2969, *second[2:])]]
    m, n = (cohorts_of(metric) for metric in pair["metrics"])
    if m > 1 < n:
        batches.append([first, (second[0], 2968, n - 1, second[3])])
    return [as_json(random_bytes(f"{name} {part} {number} id", 16), batch) for number, batch in enumerate(batches)]


def report(pair, at, about, epoch, x):
    metric = pair["metrics"][at]
    cohort = x * cohorts_of(metric) >> 62
    positions = bits_of(metric, cohort)
    drawn = int.from_bytes(random_bytes(f"{about} {at} bits", 16), "big")
    bits = 1 << drawn % positions if one_position(metric) else drawn % (1 << positions)
    return metric, epoch, cohort, bits


def pair_tally(name, batches):
    pair = pair_of(name)
    hashes = [metric_hash(metric) for metric in pair["metrics"]]
    there = cohort_pairs(pair)
    counted = []
    for batch in batches:
        for epoch in sorted({row["epoch"] for row in batch["reports"]}):
            found = [
                [row for row in batch["reports"] if (row["metric_hash"], row["epoch"]) == (name, epoch)]
                for name in hashes
            ]
            if [len(rows) for rows in found] == [1, 1]:
                (one,), (other,) = found
                vectors = [int.from_bytes(bytes.fromhex(row["bits"]), "little") for row in (one, other)]
                counted.append((epoch, (one["cohort"], other["cohort"]), *vectors))
    counted = [batch for batch in counted if batch[1] in there]
    epochs = []
    for epoch in sorted({batch[0] for batch in counted}):
        row = {"epoch": epoch, "num_batches": [], "first": [], "second": [], "both": []}
        for cohorts in there:
            here = [batch[2:] for batch in counted if batch[:2] == (epoch, cohorts)]
            a, b = (bits_of(metric, cohort) for metric, cohort in zip(pair["metrics"], cohorts, strict=True))
            row["num_batches"].append(len(here))
            row["first"].append([sum(one >> i & 1 for one, _ in here) for i in range(a)])
            row["second"].append([sum(other >> j & 1 for _, other in here) for j in range(b)])
            table = [[sum(one >> i & other >> j & 1 for one, other in here) for j in range(b)] for i in range(a)]
            row["both"].append(table)
        epochs.append(row)
    return {"format": "hubbub.pair_tally", "version": 1, "pair_hash": metric_hash(pair), "pair": pair, "epochs": epochs}


def pair_tallies():
    rows = []
    for name in PAIRS:
        one, other = batches_of(name, "one"), batches_of(name, "other")
        sums = {"one": pair_tally(name, one), "other": pair_tally(name, other), "sum": pair_tally(name, one + other)}
        rows.append({"cohort_pairs": cohort_pairs(pair_of(name)), "batches": one, **sums})
    return rows
