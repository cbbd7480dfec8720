"""A second implementation of docs/wire-format.md, written from that page alone; `derive.py` makes the vectors with it.

It imports nothing of hubbub, and no hash of texts but its own: where both agree, the page says enough to build a third.
The sections are those of the page.
"""

import hashlib
import struct
import unicodedata
import zlib
from decimal import Context, Decimal
from fractions import Fraction
from math import comb

from crosses import cell, num_cells
from histories import history, truth_of

UNITS = 2**24
M64 = 2**64 - 1


# --- section 5: hashing a text ------------------------------------------------------------------------------------


def murmur3_x64_128(data):
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = 0
    whole = len(data) - len(data) % 16
    for k1, k2 in struct.iter_unpack("<QQ", data[:whole]):
        h1 ^= rotl(k1 * c1, 31) * c2 & M64
        h1 = (rotl(h1, 27) + h2) * 5 + 0x52DCE729 & M64
        h2 ^= rotl(k2 * c2, 33) * c1 & M64
        h2 = (rotl(h2, 31) + h1) * 5 + 0x38495AB5 & M64
    k1, k2 = struct.unpack("<QQ", data[whole:].ljust(16, b"\0"))
    h2 ^= rotl(k2 * c2, 33) * c1 & M64
    h1 ^= rotl(k1 * c1, 31) * c2 & M64
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = h1 + h2 & M64
    h2 = h2 + h1 & M64
    h1, h2 = fmix(h1), fmix(h2)
    h1 = h1 + h2 & M64
    h2 = h2 + h1 & M64
    return h1, h2


def rotl(x, r):
    x &= M64
    return (x << r | x >> 64 - r) & M64


def fmix(k):
    k = (k ^ k >> 33) * 0xFF51AFD7ED558CCD & M64
    k = (k ^ k >> 33) * 0xC4CEB9FE1A85EC53 & M64
    return k ^ k >> 33


def stream_word(h1, h2, w):
    return mix(h1 + (w + 1) * (h2 | 1))


def mix(z):
    z &= M64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def text_bytes(text):
    return unicodedata.normalize("NFC", text).encode("utf-8")


def positions(text, num_bits, num_hashes, cohort):
    h1, h2 = murmur3_x64_128(text_bytes(text))
    words = -(-num_hashes // 2)
    halves = []
    for w in range(cohort * words, (cohort + 1) * words):
        word = stream_word(h1, h2, w)
        halves += [word >> 32, word & 0xFFFFFFFF]
    free = list(range(num_bits))
    return [free.pop(half * (num_bits - i) // 2**32) for i, half in enumerate(halves[:num_hashes])]


def beginning(text, shape, cohort):
    """What an install of this cohort is asked for: bytes, and 256 for the end."""
    plain = unicodedata.normalize("NFC", text)
    if shape["lowercase"]:
        plain = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in plain)
    data = plain.encode("utf-8")
    reach = min((cohort // shape["num_groups"] + 1) * shape["step"], shape["max_length"])
    ends = len(data) < reach or len(data) == reach == shape["max_length"]
    return [*data[:reach], *([256] if ends else [])], len(data) > shape["max_length"]


def state_of(symbols):
    state = 0
    for symbol in symbols:
        state = mix(state + (symbol + 1) * 0xD1342543DE82EF95)
    return state


def position_of(state, cohort, num_bits):
    return (mix(state + (cohort + 1) * 0x9E3779B97F4A7C15) >> 32) * num_bits // 2**32


# --- section 9: the noise -----------------------------------------------------------------------------------------

EXACT = Context(prec=80)


def e_to(x):
    """e^x to 80 digits. No decision below comes nearer to a tie than the spacing of the candidates, 2^-24."""
    return Fraction(EXACT.exp(EXACT.divide(Decimal(x.numerator), Decimal(x.denominator))))


def down(x):
    return Fraction(x * UNITS // 1, UNITS)


def up(x):
    return -down(-x)


def noise(kind, every, shape, given):
    if "prob_f" in given:
        f, p, q = (Fraction(given[key]) for key in ("prob_f", "prob_p", "prob_q"))
        return bits_channel(down(1 - f / 2), up(f / 2)), bits_channel(down(q), up(p))
    e1, einf = Fraction(given["epsilon_one_report"]), Fraction(given["epsilon_permanent"])
    d = width(kind, shape, 0)
    listed = kind in ("choice", "cross")
    if listed and every == "once":
        found = subsets(d, e_to(e1), noise(kind, "week", shape, dict.fromkeys(given, given["epsilon_one_report"])))
        if found:
            return found, bits_channel(Fraction(1), Fraction(0))
    if (listed and d < 3 * e_to(e1) + 2) or (kind == "mean" and d > 1):
        return kary_noise(d, e_to(e1), e_to(einf))
    h = shape.get("num_hashes", 1) if kind == "string" and shape["num_bits"] > 1 else d if kind == "set" else 1
    a0 = up(1 / (1 + e_to(einf / h)))
    one_bit = (
        kind in ("flag", "mean", "set")
        or (kind == "string" and shape["num_bits"] == 1)
        or (kind == "histogram" and shape["buckets_per_report"] == 1)
    )
    a1 = 1 - a0 if one_bit else Fraction(1, 2)
    floor_of_p_star = 1 / (1 + e_to(e1 / h))
    q = Fraction(last(lambda u: a0 * u + (1 - a0) * (UNITS - u) >= floor_of_p_star * UNITS, UNITS), UNITS)
    return bits_channel(a1, a0), bits_channel(q, 1 - q)


def kary_noise(d, odds_one, odds_permanent):
    other = up(1 / (odds_permanent + d - 1))
    truth = 1 - (d - 1) * other

    def keeps(u):
        later = Fraction(u, UNITS)
        kept = 1 - (d - 1) * later
        said, unsaid = truth * kept + (d - 1) * other * later, other * kept + (truth + (d - 2) * other) * later
        return said <= odds_one * unsaid

    most = UNITS // d
    later = Fraction(most - last(lambda u: keeps(most - u), most), UNITS)
    return kary_channel(d, truth, other), kary_channel(d, 1 - (d - 1) * later, later)


def subsets(d, odds, instead):
    """The best subset channel, if it is better than the noise `instead`."""
    first, then = ([Fraction(value) for key, value in stage.items() if key != "categories"] for stage in instead)
    if "categories" in instead[0]:
        q = first[0] * then[0] + (d - 1) * first[1] * then[1]
        found, best = None, variance(d, q, (1 - q) / (d - 1))
    else:
        q, p = (a * then[0] + (1 - a) * then[1] for a in first)
        found, best = None, variance(d, q, p)
    for w in range(2, min(d, int(d / (1 + odds)) + 2)) if 3 <= d <= 256 else ():
        other = int(2**48 / (comb(d - 1, w - 1) * odds + comb(d - 1, w)))
        held = int(other * odds)
        if other < 2**12 or held <= other:
            break
        units = comb(d - 1, w - 1) * held + comb(d - 1, w) * other
        q = Fraction(comb(d - 1, w - 1) * held, units)
        p = (w - q) / (d - 1)  # a report has w categories in all
        if variance(d, q, p) < best:
            found, best = {"categories": d, "size": w, "held": held, "other": other}, variance(d, q, p)
    return found


def variance(d, q, p):
    return p * (1 - p) / (q - p) ** 2 + (1 - p - q) / ((q - p) * d)


def last(holds, most):
    """The largest number up to `most` for which `holds`, which is true up to it and false beyond. It is true of 0."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def bits_channel(when_one, when_zero):
    return {"when_one": str(when_one), "when_zero": str(when_zero)}


def kary_channel(categories, truth, other):
    return {"categories": categories, "truth": str(truth), "other": str(other)}


# --- sections 2 and 3: definitions, cohorts, widths ---------------------------------------------------------------


def definition(name, kind, every, shape, given, accumulate="first", segment=None, named=None, sample=None):
    jointly = drawn_jointly(kind, every, shape, given)
    if "epsilon_history" in given or jointly:
        widths = [width(kind, shape, cohort) for cohort in range(num_cohorts(kind, shape))]
        channels = {"history": jointly or history(kind, shape, widths, given, e_to)}
    else:
        channels = dict(zip(("permanent", "instantaneous"), noise(kind, every, shape, given), strict=True))
    return {
        "name": name,
        "kind": kind,
        "every": every,
        **({"accumulate": accumulate} if accumulate != "first" else {}),
        **({"segment": segment} if segment else {}),
        **({"sample": sample} if sample else {}),
        "shape": shape,
        **channels,
        **({"named": named} if named else {}),
    }


def drawn_jointly(kind, every, shape, given):
    """The history of one answer that a set asked once may have, or None where its items are better told apart."""
    if kind != "set" or every != "once" or "epsilon_one_report" not in given or shape["items_per_report"] == 1:
        return None
    keys = {"hold": "1", "max_values": "1", "epsilon_history": given["epsilon_one_report"]}
    found = history(kind, shape, [shape["items_per_report"]], keys, e_to)
    stages = [Fraction(stage["when_one"]) for stage in noise(kind, every, shape, given)]
    apart = stages[0] * stages[1] + (1 - stages[0]) * (1 - stages[1])  # both stages are symmetric
    together = truth_of(found, shape["items_per_report"])
    return found if together > apart else None


def canonical(value):
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, str):
        for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
            value = value.replace(plain, escaped)
        return f'"{value}"'
    return "null" if value is None else str(value).lower()


def unnamed(metric):
    """What is hashed: without the names that spare places were given since."""
    return {key: value for key, value in metric.items() if key != "named"}


def metric_hash(metric):
    return hashlib.blake2b(canonical(unnamed(metric)).encode("utf-8"), digest_size=16).hexdigest()


def levels(shape):
    count = 1
    while shape["branching"] ** count < shape["num_leaves"]:
        count += 1
    return count


def num_cohorts(kind, shape):
    if kind == "string" and "discover" in shape:
        return (-(-shape["max_length"] // shape["step"]) + 1) * shape["num_groups"]
    if kind == "string":
        return shape["num_cohorts"]
    if kind == "histogram":
        buckets = len(shape["edges"]) - 1
        return 1 if shape["buckets_per_report"] == buckets else buckets
    if kind == "set":
        places = len(shape["items"]) + shape.get("reserve", 0)
        return 1 if shape["items_per_report"] == places else places
    return levels(shape) if kind == "range" else 1


def width(kind, shape, cohort):
    if kind == "choice":
        return len(shape["choices"]) + shape.get("reserve", 0) + (shape["absent"] is None)
    if kind == "string":
        return shape["num_bits"]
    if kind == "histogram":
        return shape["buckets_per_report"]
    if kind == "set":
        return shape["items_per_report"]
    if kind == "cross":
        return num_cells(shape)
    if kind == "mean" and ("points" in shape or shape["absent"] == "apart"):
        return shape.get("points", 2) + (shape["absent"] == "apart")
    return shape["branching"] ** (cohort + 1) if kind == "range" else 1


def vector(metric, cohort, number):
    """A mask, memo or report as the bytes it would have in a block."""
    return number.to_bytes(-(-width(metric["kind"], metric["shape"], cohort) // 8), "little").hex()


# --- section 4: masks ---------------------------------------------------------------------------------------------


def mask(metric, value, cohort, dither):
    """The mask and whether the value was clamped. `value` is None if absent, else a table with one of the keys "text",
    "texts", "flag", "number" and "float", which is the shortest decimal of a double."""
    kind, shape = metric["kind"], metric["shape"]
    absent = value is None
    if kind == "cross":
        return 2 ** cell(shape, value, dither, mask), False
    if kind == "flag":
        return int(shape["absent"] if absent else value["flag"]), False
    if kind == "choice":
        choice = shape["absent"] if absent else value["text"]
        names = shape["choices"] + metric.get("named", [])
        return 2 ** (width(kind, shape, cohort) - 1 if choice is None else names.index(choice)), False
    if kind == "string":
        if absent:
            return 0, False
        if "discover" in shape:
            symbols, longer = beginning(value["text"], shape, cohort)
            return 2 ** position_of(state_of(symbols), cohort, shape["num_bits"]), longer
        if shape["num_bits"] == 1:
            return positions(value["text"], 2, 1, cohort)[0], False
        return sum(2**i for i in positions(value["text"], shape["num_bits"], shape["num_hashes"], cohort)), False
    if absent and kind != "mean":
        return 0, False
    if kind == "set":
        items = shape["items"] + metric.get("named", [])
        items += [None] * (len(shape["items"]) + shape.get("reserve", 0) - len(items))
        asked = [items[(cohort + i) % len(items)] for i in range(shape["items_per_report"])]
        return sum(2**i for i, item in enumerate(asked) if item in value["texts"]), False
    if absent and shape["absent"] == "apart":
        return 2 ** shape.get("points", 2), False
    x = Fraction(shape["absent"] if absent else value.get("number") or value["float"])
    limits = shape["edges"] if kind == "histogram" else [shape["low"], shape["high"]]
    low, high = Fraction(limits[0]), Fraction(limits[-1])
    inside = low if x < low else high if x > high else x
    return number_mask(kind, shape, inside, cohort, dither, low, high), inside != x


def number_mask(kind, shape, x, cohort, dither, low, high):
    share = (x - low) / (high - low)
    if kind == "mean":
        point = int((share * (shape.get("points", 2) - 1) + Fraction(dither, 2**64)) // 1)
        return 2**point if width(kind, shape, cohort) > 1 else point
    if kind == "range":
        leaf = min(share * shape["num_leaves"] // 1, shape["num_leaves"] - 1)
        return 2 ** int(leaf // shape["branching"] ** (levels(shape) - 1 - cohort))
    edges = [Fraction(edge) for edge in shape["edges"]]
    buckets = len(edges) - 1
    bucket = max(j for j in range(buckets) if edges[j] <= x)
    asked = [(cohort + i) % buckets for i in range(shape["buckets_per_report"])]
    return 2 ** asked.index(bucket) if bucket in asked else 0


# --- sections 7 and 8: batches and tallies ------------------------------------------------------------------------


def blocks_of(reports):
    """Reports (metric, epoch, cohort, bits) by metric and epoch, in the order in which these first appear."""
    blocks = {}
    for metric, epoch, cohort, bits in reports:
        blocks.setdefault((metric_hash(metric), epoch), (metric, []))[1].append((cohort, bits))
    return [(name, epoch, metric, rows) for (name, epoch), (metric, rows) in blocks.items()]


def packed(batch_id, reports):
    table = body = b""
    blocks = blocks_of(reports)
    for name, epoch, metric, rows in blocks:
        table += bytes.fromhex(name)[:8] + struct.pack("<iI", epoch, len(rows))
        size = 1 if num_cohorts(metric["kind"], metric["shape"]) <= 256 else 2
        body += b"".join(cohort.to_bytes(size, "little") for cohort, _ in rows)
        body += b"".join(bytes.fromhex(vector(metric, cohort, bits)) for cohort, bits in rows)
    return sealed(batch_id, len(blocks), table + body)


def sealed(batch_id, num_blocks, body, magic=b"HUBB", version=1, flags=0, body_length=None, crc_error=0):
    length = len(body) if body_length is None else body_length
    head = struct.pack("<4sBBH16sI", magic, version, flags, num_blocks, batch_id, length)
    return head + struct.pack("<I", zlib.crc32(head + bytes(4) + body) ^ crc_error) + body


def as_json(batch_id, reports):
    rows = [
        {
            "metric": metric["name"],
            "metric_hash": metric_hash(metric),
            "epoch": epoch,
            "cohort": cohort,
            "bits": vector(metric, cohort, bits),
        }
        for metric, epoch, cohort, bits in reports
    ]
    return {"version": 1, "batch_id": batch_id.hex(), "reports": rows}


def tally(metric, reports):
    """`reports` are (epoch, cohort, bits)."""
    cohorts = range(num_cohorts(metric["kind"], metric["shape"]))
    epochs = []
    for epoch in sorted({epoch for epoch, _, _ in reports}):
        by_cohort = [[bits for e, c, bits in reports if (e, c) == (epoch, cohort)] for cohort in cohorts]
        counts = [
            [sum(bits >> i & 1 for bits in rows) for i in range(width(metric["kind"], metric["shape"], cohort))]
            for cohort, rows in enumerate(by_cohort)
        ]
        epochs.append({"epoch": epoch, "num_reports": [len(rows) for rows in by_cohort], "bit_counts": counts})
    return {
        "format": "hubbub.tally",
        "version": 1,
        "metric_hash": metric_hash(metric),
        "metric": metric,
        "epochs": epochs,
    }
