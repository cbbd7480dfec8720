"""Derives the vectors beside it from docs/wire-format.md, by the second implementation in `wire.py`.

    python tests/vectors/derive.py            writes the vectors
    python tests/vectors/derive.py --check    exit status 1 if the files are not what this program derives

Standard library only, nothing of hubbub. `cases.py` lists what goes in, `defects.py` what must be refused.
"""

import json
import sys
from pathlib import Path

from behaviour import behaviour, compiled_registries
from cases import (
    BATCH_ID,
    BATCHES,
    BEGINNINGS,
    CASES,
    DITHERS,
    FILTERS,
    METRICS,
    PLACES,
    TEXTS,
    VALUES,
    reports_of,
    tallied,
)
from defects import bad_json, bad_packed, bad_tallies, bad_values
from drawing import drawn, random_bytes, random_size
from epochs import cohorts, epochs
from histories import drawn_flags
from pair_defects import bad_pair_tallies
from pairs import pair_tallies
from wire import (
    as_json,
    canonical,
    mask,
    metric_hash,
    murmur3_x64_128,
    num_cohorts,
    packed,
    position_of,
    positions,
    state_of,
    text_bytes,
    unnamed,
    vector,
    width,
)

HERE = Path(__file__).parent


def definitions():
    return [
        {
            "noise": given,
            "definition": METRICS[name],
            "canonical": canonical(unnamed(METRICS[name])),
            "metric_hash": metric_hash(METRICS[name]),
            "num_cohorts": num_cohorts(kind, shape),
            "widths_of_first_and_last_cohort": [width(kind, shape, c) for c in (0, num_cohorts(kind, shape) - 1)],
        }
        for name, kind, _, shape, given, *_ in CASES
    ]


def hashes():
    rows = []
    for text in TEXTS:
        digest = [f"{half:016x}" for half in murmur3_x64_128(text_bytes(text))]
        found = [
            {"num_bits": k, "num_hashes": h, "cohort": c, "positions": positions(text, k, h, c)} for k, h, c in FILTERS
        ]
        rows.append({"text": text, "utf8_of_nfc": text_bytes(text).hex(), "h1_h2": digest, "positions": found})
    return rows


def prefixes():
    """Beginnings that go on, and that end."""
    rows = []
    for data in BEGINNINGS:
        for ends in (False, True):
            state = state_of([*data, *([256] if ends else [])])
            found = [{"num_bits": k, "cohort": c, "position": position_of(state, c, k)} for k, c in PLACES]
            rows.append({"bytes": data.hex(), "ends": ends, "state": f"{state:016x}", "positions": found})
    return rows


def masks():
    rows = []
    for name, values in VALUES.items():
        metric = METRICS[name]
        last = num_cohorts(metric["kind"], metric["shape"]) - 1
        for value in values:
            for cohort in sorted({0, min(1, last), last}):
                for dither in DITHERS if metric["kind"] in ("mean", "cross") else (0,):
                    found, clamped = mask(metric, value, cohort, dither)
                    rows.append(
                        {
                            "metric": name,
                            "value": value,
                            "cohort": cohort,
                            "dither": str(dither),  # beyond what some JSON readers hold exactly
                            "mask": vector(metric, cohort, found),
                            "clamped": clamped,
                        }
                    )
    return rows


def responses():
    """The randomness is SHAKE128 of a text that names the case."""
    rows = []
    for name, metric in METRICS.items():
        if "history" in metric:
            continue  # no memo is drawn: histories.json
        last = num_cohorts(metric["kind"], metric["shape"]) - 1
        for number in range(4):
            cohort = last if number % 2 else 0
            bits = width(metric["kind"], metric["shape"], cohort)
            sent = 1 << number % bits
            chances = [
                random_bytes(f"{name} {number} {part}", random_size(metric, stage, cohort))
                for part, stage in (("memo", "permanent"), ("bits", "instantaneous"))
            ]
            memo = drawn(metric, "permanent", sent, cohort, chances[0])
            report = drawn(metric, "instantaneous", memo, cohort, chances[1])
            rows.append(
                {
                    "metric": name,
                    "cohort": cohort,
                    "mask": vector(metric, cohort, sent),
                    "random_of_memo": chances[0].hex(),
                    "memo": vector(metric, cohort, memo),
                    "random_of_bits": chances[1].hex(),
                    "bits": vector(metric, cohort, report),
                }
            )
    return rows


def histories():
    """The flags of a whole history, from the bytes of SHAKE128."""
    rows = []
    for name, metric in METRICS.items():
        if "history" in metric:
            flags = metric["history"]["answers"] * metric["shape"].get("items_per_report", 1)
            for number in range(4):
                chance = random_bytes(f"{name} {number} flags", 512)
                found, used = drawn_flags(metric["history"], flags, chance)
                rows.append({"metric": name, "random": chance[:used].hex(), "flags": found})
    return rows


def batches():
    rows = []
    for about, parts in BATCHES.items():
        reports = reports_of(parts)
        message = as_json(BATCH_ID, reports)
        rows.append({"about": about, "packed": packed(BATCH_ID, reports).hex(), "json": message})
    return rows


def good_json():
    """One batch, written in the ways that JSON allows."""
    reports = reports_of([("flag", 2968, 1)])
    message = as_json(BATCH_ID, reports)
    text = json.dumps(message)
    backwards = {**dict(reversed(message.items())), "reports": [dict(reversed(message["reports"][0].items()))]}
    forms = {
        "without spaces": json.dumps(message, separators=(",", ":")),
        "with line breaks, and behind it": json.dumps(message, indent="\t") + "\r\n \t",
        "keys in another order": json.dumps(backwards),
        "escapes in a key and in a name": text.replace('"epoch"', '"\\u0065poch"').replace('"flag"', '"fl\\u0061g"'),
        "a cohort of minus zero": text.replace('"cohort": 0', '"cohort": -0'),
    }
    return [{"about": about, "utf8": form, "packed": packed(BATCH_ID, reports).hex()} for about, form in forms.items()]


def tallies():
    rows = []
    for name in METRICS:
        if METRICS[name]["shape"].get("num_cohorts", 0) * METRICS[name]["shape"].get("num_bits", 0) > 200:
            continue  # long, and nothing new
        if name == "histogram_257_cohorts":
            continue  # so is this
        first, second = [(name, 2967, 3), (name, 2968, 4)], [(name, 2968, 2), (name, 2970, 1)]
        # The same report twice counts twice: a tally cannot know. Names of spare places are known to one side only.
        one = tallied(first)
        one["metric"] = unnamed(one["metric"])
        rows.append({"one": one, "other": tallied(second), "sum": tallied(first + second)})
    return rows


FILES = {
    "definitions.json": definitions,
    "hash.json": hashes,
    "prefixes.json": prefixes,
    "epochs.json": epochs,
    "cohorts.json": cohorts,
    "masks.json": masks,
    "responses.json": responses,
    "histories.json": histories,
    "batches.json": batches,
    "good_json.json": good_json,
    "tallies.json": tallies,
    "pair_tallies.json": pair_tallies,
    "compiled.json": compiled_registries,
    "behaviour.json": behaviour,
    "bad_packed.json": bad_packed,
    "bad_json.json": bad_json,
    "bad_tallies.json": bad_tallies,
    "bad_pair_tallies.json": bad_pair_tallies,
    "bad_values.json": bad_values,
}


def main(arguments):
    wrong = []
    for name, derived in FILES.items():
        path, rows = HERE / name, derived()
        # One case a line: readable, and a change shows as the lines it changed.
        text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
        if "--check" not in arguments:
            path.write_text(text, encoding="ascii")
        elif not path.exists() or path.read_text(encoding="ascii") != text:
            wrong.append(name)
    for name in wrong:
        print(f"{name} is not what derive.py derives")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
