"""The cases: definitions, texts, values and reports that the vectors are made of."""

from drawing import masks_of_weight, random_bytes
from wire import definition, num_cohorts, tally, width

# --- definitions: each kind, each sort of channel, each way to state the noise ------------------------------------

EPSILONS = {"epsilon_one_report": "1", "epsilon_permanent": "2"}
OTHER_EPSILONS = {"epsilon_one_report": "1/2", "epsilon_permanent": "31/10"}
CLEARER_EPSILONS = {"epsilon_one_report": "2", "epsilon_permanent": "4"}
HISTORY = {"hold": "13", "max_values": "4", "epsilon_history": "4"}
RAPPOR = {"prob_f": "1/2", "prob_p": "1/2", "prob_q": "3/4"}
THIRDS = {"prob_f": "1/3", "prob_p": "1/7", "prob_q": "2/3"}  # none is a multiple of 2^-24

TEXTS_TO_ESCAPE = ['say "hi"', "back\\slash", "two\nlines", "a\ttab"]
TEXTS_NOT_TO_ESCAPE = ["\u00e9", "e\u0301", "\u65e5\u672c", "\U0001f600"]
BUCKETS = {"edges": ["-5", "0", "1/2", "10", "100"], "buckets_per_report": 2, "unit": "kB"}
MANY_BUCKETS = {"edges": [str(edge) for edge in range(258)], "buckets_per_report": 1}
TENTHS = {"edges": ["0", "1/10", "3/10", str(10**23), str(10**24)], "buckets_per_report": 4}
NUMBERS = {"low": "0", "high": "30", "unit": "s"}
ITEMS = ["export", "macros", "vim_keys", "spell", "\u00e9"]
STRING = {"num_bits": 64, "num_hashes": 1, "num_cohorts": 128}
DISCOVERY = {
    "discover": True,
    "alphabet": "host",
    "max_length": 5,
    "lowercase": False,
    "step": 2,
    "num_bits": 16,
    "num_groups": 2,
}
OS = {"name": "os", "kind": "choice", "shape": {"choices": ["linux", "macos", "\u00e9"], "absent": None}}
CRASHED = {"name": "crashed", "kind": "flag", "accumulate": "any", "shape": {"absent": False}}
SIZE = {"name": "size", "kind": "histogram", "shape": BUCKETS}
STARTED = {"name": "started", "kind": "mean", "shape": {**NUMBERS, "absent": "15/2", "points": 3}}
QUIET = {"name": "quiet", "kind": "mean", "shape": {**NUMBERS, "absent": "0"}}
RELEASE = {"release": "2.1 \u00e9", "platform": "linux"}
CASES = [
    ("flag", "flag", "week", {"absent": False}, EPSILONS),
    ("flag_equal_epsilons", "flag", "day", {"absent": True}, {"epsilon_one_report": "2", "epsilon_permanent": "2"}),
    ("flag_of_a_release", "flag", "week", {"absent": False}, EPSILONS, "first", RELEASE),
    ("flag_sampled", "flag", "week", {"absent": False}, EPSILONS, "first", None, None, "1/10"),
    ("flag_rappor", "flag", "month", {"absent": False}, THIRDS),
    ("choice_kary", "choice", "week", {"choices": ["c", "go", "rust", "other"], "absent": None}, EPSILONS),
    ("choice_with_absent", "choice", "once", {"choices": ["left", "right"], "absent": "left"}, OTHER_EPSILONS),
    ("choice_bits", "choice", "week", {"choices": [f"choice {i}" for i in range(20)], "absent": None}, EPSILONS),
    ("choice_subset", "choice", "once", {"choices": [f"choice {i}" for i in range(9)], "absent": None}, EPSILONS),
    (
        "choice_texts",
        "choice",
        "week",
        {"choices": TEXTS_TO_ESCAPE + TEXTS_NOT_TO_ESCAPE, "absent": "\u00e9"},
        EPSILONS,
    ),
    ("choice_rappor", "choice", "week", {"choices": ["no", "yes"], "absent": None}, RAPPOR),
    ("choice_reserve", "choice", "week", {"choices": ["c", "go"], "absent": None, "reserve": 3}, EPSILONS),
    (
        "choice_reserve_named",
        "choice",
        "week",
        {"choices": ["c", "go"], "absent": "go", "reserve": 3},
        EPSILONS,
        "first",
        None,
        ["rust", "\u00e9"],
    ),
    ("string", "string", "month", STRING, EPSILONS),
    ("string_two_hashes", "string", "week", {**STRING, "num_bits": 128, "num_hashes": 2, "num_cohorts": 16}, EPSILONS),
    ("string_rappor", "string", "week", {**STRING, "num_bits": 128, "num_hashes": 2, "num_cohorts": 64}, RAPPOR),
    ("string_parity", "string", "day", {**STRING, "num_bits": 1}, EPSILONS),
    ("string_many_cohorts", "string", "day", {"num_bits": 9, "num_hashes": 3, "num_cohorts": 512}, OTHER_EPSILONS),
    ("discovery", "string", "week", DISCOVERY, CLEARER_EPSILONS),
    (
        "discovery_of_bytes",
        "string",
        "month",
        {**DISCOVERY, "alphabet": "bytes", "max_length": 7, "lowercase": True, "step": 1, "num_groups": 3},
        EPSILONS,
    ),
    ("discovery_of_ascii", "string", "once", {**DISCOVERY, "alphabet": "ascii", "num_bits": 300}, RAPPOR),
    ("mean", "mean", "day", {**NUMBERS, "absent": "0"}, EPSILONS),
    ("mean_of_thirds", "mean", "day", {"low": "-1/3", "high": "7/5", "absent": "2/3", "unit": ""}, OTHER_EPSILONS),
    ("mean_of_three_points", "mean", "week", {**NUMBERS, "absent": "0", "points": 3}, CLEARER_EPSILONS),
    (
        "mean_of_eight_points",
        "mean",
        "week",
        {"low": "-1/3", "high": "7/5", "absent": "2/3", "unit": "", "points": 8},
        CLEARER_EPSILONS,
    ),
    ("mean_apart", "mean", "week", {**NUMBERS, "absent": "apart", "points": 3}, CLEARER_EPSILONS),
    ("mean_apart_of_two_points", "mean", "day", {**NUMBERS, "absent": "apart"}, EPSILONS),
    ("histogram", "histogram", "week", BUCKETS, EPSILONS),
    ("histogram_one_bit", "histogram", "week", {**BUCKETS, "buckets_per_report": 1}, EPSILONS),
    ("histogram_all", "histogram", "week", {**BUCKETS, "buckets_per_report": 4}, EPSILONS),
    ("histogram_sum", "histogram", "week", BUCKETS, EPSILONS, "sum"),
    ("range", "range", "week", {**NUMBERS, "num_leaves": 64, "branching": 4}, EPSILONS),
    ("range_of_two", "range", "week", {**NUMBERS, "num_leaves": 2, "branching": 2}, OTHER_EPSILONS),
    ("set", "set", "week", {"items": ITEMS, "items_per_report": 2}, EPSILONS, "any"),
    ("set_of_one", "set", "week", {"items": ITEMS, "items_per_report": 1}, OTHER_EPSILONS, "any"),
    ("set_of_all", "set", "once", {"items": ITEMS, "items_per_report": 5}, EPSILONS, "any"),
    (
        "set_reserve",
        "set",
        "week",
        {"items": ITEMS[:3], "items_per_report": 2, "reserve": 2},
        EPSILONS,
        "any",
        None,
        ["zen"],
    ),
    ("set_once", "set", "once", {"items": ITEMS, "items_per_report": 3}, CLEARER_EPSILONS, "any"),
    ("flag_history", "flag", "week", {"absent": False}, HISTORY),
    ("choice_history", "choice", "week", {"choices": ["c", "go", "rust"], "absent": None}, {**HISTORY, "hold": "4"}),
    ("choice_history_bits", "choice", "day", {"choices": [f"choice {i}" for i in range(30)], "absent": None}, HISTORY),
    ("string_history", "string", "month", STRING, {**HISTORY, "max_values": "3"}),
    ("mean_history", "mean", "week", {**NUMBERS, "absent": "0", "points": 3}, HISTORY),
    ("mean_apart_history", "mean", "week", {**NUMBERS, "absent": "apart", "points": 3}, HISTORY),
    ("histogram_history", "histogram", "week", BUCKETS, HISTORY),
    ("range_history", "range", "week", {**NUMBERS, "num_leaves": 64, "branching": 4}, {**HISTORY, "max_values": "2"}),
    ("set_history", "set", "week", {"items": ITEMS, "items_per_report": 2}, HISTORY, "any"),
    ("cross", "cross", "week", {"factors": [OS, CRASHED]}, EPSILONS),
    ("cross_bits", "cross", "week", {"factors": [SIZE, OS]}, EPSILONS),
    ("cross_of_sums", "cross", "week", {"factors": [{**SIZE, "accumulate": "sum"}, STARTED]}, CLEARER_EPSILONS),
    ("cross_once", "cross", "once", {"factors": [CRASHED, QUIET]}, OTHER_EPSILONS),
    ("cross_history", "cross", "week", {"factors": [CRASHED, OS]}, HISTORY),
    ("cross_rappor", "cross", "day", {"factors": [QUIET, SIZE]}, RAPPOR, "first", RELEASE),
    ("set_rappor", "set", "day", {"items": ITEMS, "items_per_report": 3}, THIRDS, "any"),
    # Cohorts of one byte, just; and no longer. And edges that doubles only nearly hit.
    ("string_256_cohorts", "string", "week", {"num_bits": 8, "num_hashes": 1, "num_cohorts": 256}, EPSILONS),
    ("histogram_257_cohorts", "histogram", "week", {**BUCKETS, **MANY_BUCKETS}, EPSILONS),
    ("histogram_tenths", "histogram", "week", {**BUCKETS, **TENTHS}, EPSILONS),
]
METRICS = {case[0]: definition(*case) for case in CASES}


# --- hashing: texts around the block size, and texts that only NFC makes equal ------------------------------------

TEXTS = [
    *("", "a", "example.org", "https://example.org/", "0123456789abcde", "0123456789abcdef", "0123456789abcdefg"),
    *("\u00e9", "e\u0301", "\u65e5\u672c\u8a9e", "\U0001f600", "\ufb01", "line\nbreak", "zero\u0000byte", "x" * 300),
    # Marks that change places, a syllable of three letters, and characters that NFC takes apart or replaces.
    *("q\u0307\u0323", "\u1112\u1161\u11ab", "\u0958", "\u212b", "\u0344"),
]
BEGINNINGS = [b"", b"a", b"ab", b"ba", b"example.org", "\u00e9".encode(), bytes(range(0x20, 0x7F))]
PLACES = [(16, 0), (128, 1), (300, 159), (65536, 65535)]
FILTERS = [
    (64, 1, 0),
    (64, 1, 1),
    (64, 1, 127),
    (128, 2, 0),
    (128, 2, 63),
    (7, 7, 3),
    (100, 5, 1000),
    (65536, 64, 65535),
]


# --- values, by metric; None is absent -------------------------------------------------------------------------------

DOUBLES = (
    "0.1",
    "0.3",
    "0.30000000000000004",
    "0.29999999999999993",
    "1e+23",
    "9.999999999999997e+22",
    "5e-324",
    "-0.0",
)
DITHERS = (0, 2**63, 2**64 - 1)
FLAGS = [{"flag": True}, {"flag": False}]
LISTED = [{"text": "linux"}, {"text": "\u00e9"}]
SIZES = [{"number": n} for n in ("-6", "0", "1/2", "15", "99", "101")] + [None]
VALUES = {
    "flag": [{"flag": True}, {"flag": False}, None],
    "flag_equal_epsilons": [{"flag": False}, None],
    "choice_kary": [{"text": "c"}, {"text": "other"}, None],
    "choice_with_absent": [{"text": "right"}, None],
    "choice_subset": [{"text": "choice 0"}, {"text": "choice 8"}, None],
    "choice_reserve": [{"text": "c"}, {"text": "go"}, None],
    "choice_reserve_named": [{"text": "rust"}, {"text": "\u00e9"}, None],
    "choice_texts": [{"text": "\u00e9"}, {"text": "e\u0301"}, {"text": "\U0001f600"}, None],
    "string": [{"text": text} for text in TEXTS] + [None],
    "string_two_hashes": [{"text": "example.org"}, {"text": ""}, None],
    "string_parity": [{"text": text} for text in TEXTS[:6]] + [None],
    "string_many_cohorts": [{"text": "example.org"}],
    # Shorter than a level asks for, just as long, as long as any text, longer; and texts that normalising makes equal.
    "discovery": [{"text": text} for text in ("", "a", "ab", "abc", "abcd", "abcde", "abcdef", "+-._0")] + [None],
    "discovery_of_bytes": [{"text": text} for text in ("ABC", "abc", *TEXTS[7:10], "\U0001f600", "\u00c9")] + [None],
    "discovery_of_ascii": [{"text": text} for text in ("A b~", "A b~!")],
    "mean": [{"number": n} for n in ("0", "30", "15", "29999/1000", "1/1000000", "-1", "31")] + [None],
    "mean_of_thirds": [{"number": n} for n in ("-1/3", "0", "8/15", "7/5")] + [None],
    "mean_of_three_points": [{"number": n} for n in ("0", "30", "15", "37/2", "29999/1000", "-1", "31")] + [None],
    "mean_of_eight_points": [{"number": n} for n in ("-1/3", "0", "8/15", "7/5")] + [None],
    "mean_apart": [{"number": n} for n in ("0", "30", "37/2", "31")] + [None],
    "mean_apart_of_two_points": [{"number": n} for n in ("0", "15", "30")] + [None],
    "histogram_one_bit": [{"number": n} for n in ("0", "1", "99/10", "10", "100", "-6", "1000")] + [None],
    "histogram": [{"number": n} for n in ("-5", "-1/2", "0", "1/2", "10", "100", "101")] + [None],
    "histogram_all": [{"number": n} for n in ("0", "1", "2")] + [None],
    "histogram_257_cohorts": [{"number": n} for n in ("0", "256", "257")],
    "histogram_tenths": [{"float": f} for f in DOUBLES],
    "range": [{"number": n} for n in ("0", "15/32", "14", "15", "29999/1000", "30", "-1", "31")] + [None],
    "range_of_two": [{"number": n} for n in ("0", "15", "30")],
    "set": [{"texts": texts} for texts in ([], ["export"], ["\u00e9", "export"], ITEMS[1:4], ITEMS)] + [None],
    "set_reserve": [{"texts": texts} for texts in ([], ["export", "zen"], ["macros", "vim_keys"])] + [None],
    "set_of_one": [{"texts": texts} for texts in ([], ["macros"], ITEMS)] + [None],
    "cross": [{"factors": [os, crashed]} for os in (*LISTED, None) for crashed in (*FLAGS, None)] + [None],
    "cross_bits": [{"factors": [size, {"text": "macos"}]} for size in SIZES] + [None],
    "cross_of_sums": [{"factors": [size, size]} for size in SIZES] + [None],
    "cross_once": [{"factors": [{"flag": True}, {"number": "29999/1000"}]}, {"factors": [None, {"number": "0"}]}],
    "set_of_all": [{"texts": texts} for texts in ([], ["spell"], ITEMS[::-2], ITEMS)] + [None],
}


# --- reports ----------------------------------------------------------------------------------------------------------


def some_reports(name, epoch, count):
    """Reports of a metric with cohorts and bits from SHAKE128."""
    metric = METRICS[name]
    for number in range(count):
        chance = int.from_bytes(random_bytes(f"report {number} of {name} in {epoch}", 4096), "little")
        cohort = chance % num_cohorts(metric["kind"], metric["shape"])
        bits = width(metric["kind"], metric["shape"], cohort)
        chance >>= 64
        channel = metric.get("permanent") or metric["history"]
        one_hot = "categories" in channel and metric["kind"] in ("choice", "mean", "cross")
        if "size" in channel:
            possible = masks_of_weight(channel["size"], bits)
            yield metric, epoch, cohort, possible[chance % len(possible)]
        else:
            yield metric, epoch, cohort, 1 << chance % bits if one_hot else chance % 2**bits


BATCH_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
BATCHES = {
    "one report of one bit": [("flag", 2968, 1)],
    "a week of one install": [(name, 2968, 1) for name in ("flag", "choice_kary", "choice_bits", "histogram", "range")],
    "a relay's block, with levels of different width": [("range", 2968, 9), ("string_two_hashes", 2968, 3)],
    "subsets of ten categories": [("choice_subset", 682, 3)],
    "items of a set, asked in two ways": [("set", 2968, 4), ("set_of_one", 2968, 2)],
    "answers of histories": [(f"{kind}_history", 2968, 2) for kind in ("flag", "choice", "mean", "set")],
    "lists with a reserve": [("choice_reserve_named", 2968, 2), ("set_reserve", 2968, 2)],
    "means with absence apart": [("mean_apart", 2968, 3), ("mean_apart_history", 2968, 1)],
    "two answers at once": [("cross", 2968, 3), ("cross_bits", 2968, 2), ("cross_history", 2968, 1)],
    "cohorts of two bytes": [("string_many_cohorts", 20773, 5)],
    "256 cohorts have one byte, 257 have two": [("string_256_cohorts", 2968, 3), ("histogram_257_cohorts", 2968, 3)],
    "one metric in two epochs": [("flag", 2967, 2), ("flag", 2968, 1)],
    "epochs at the ends of 32 bits": [("flag", -(2**31), 1), ("flag", 2**31 - 1, 1)],
}


def reports_of(parts):
    return [report for name, epoch, count in parts for report in some_reports(name, epoch, count)]


def tallied(parts):
    reports = reports_of(parts)
    return tally(reports[0][0], [report[1:] for report in reports])
