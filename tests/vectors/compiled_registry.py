"""docs/compiled-registry.md by the second implementation: from a metrics.toml to what other clients read.

The texts for people (`consent`) and the fingerprint are left out: no client computes with them.
"""

import tomllib
from datetime import date
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise, product
from math import comb

from crosses import num_categories
from histories import best
from wire import definition, e_to, metric_hash, num_cohorts, width

UNITS = 2**24
MICRO = 10**6
TERMS = ("why", "owner", "expires", "max_values", "keep_reports", "retention", "grace", "every", "kind", "accumulate")
NOISE = ("epsilon_one_report", "epsilon_permanent", "prob_f", "prob_p", "prob_q", "hold", "epsilon_history")
DEFAULTS = {
    "flag": {"absent": False},
    "choice": {"absent": None},
    "string": {},
    "discovery": {"lowercase": False, "step": 2, "num_bits": 128, "num_groups": 16},
    "mean": {"unit": ""},
    "histogram": {"unit": ""},
    "range": {"unit": ""},
    "set": {},
    "cross": {},
}
DAYS = {"d": 1, "w": 7, "m": 31, "y": 366}
DAY_0 = date(1970, 1, 1).toordinal()


def compiled(toml):
    table = tomllib.loads(toml, parse_float=Decimal)
    segments = {key: table.get("segments", {})[key] for key in sorted(table.get("segments", {}))}
    combinations = [
        dict(zip(segments, values, strict=True)) for values in product(*([*v, "other"] for v in segments.values()))
    ]
    metrics = [compiled_metric(name, keys, combinations, table["metrics"]) for name, keys in table["metrics"].items()]
    made = {
        "format": "hubbub.compiled",
        "version": 1,
        "app": table["app"],
        "recipient": table["recipient"],
        "lifetime_micro_epsilon": int(Fraction(table["lifetime_epsilon"]) * MICRO),
        "max_identifying_bits": table.get("max_identifying_bits", 12),
        "segments": {"values": segments, "combinations": combinations},
        "metrics": metrics,
    }
    return {**made, "agreement": agreement(made, table["metrics"], table.get("expected_installs", 10**6))}


def compiled_metric(name, keys, combinations, tables):
    kind, every = keys["kind"], keys["every"]
    form = "discovery" if "discover" in keys else kind
    shape, hashed = shapes_of(form, every, keys)
    if form == "cross":
        factors = [factor_of(factor, tables[factor]) for factor in keys["of"]]
        shape = {"of": keys["of"], "categories": [num_categories(factor) for factor in factors]}
        hashed = {"factors": factors}
    given = {key: str(keys[key]) for key in (*NOISE, "max_values") if key in keys}
    if "hold" not in keys:
        del given["max_values"]
    how = keys.get("accumulate", "any" if kind == "set" else "first")
    undivided = definition(name, kind, every, hashed, given, how)
    cohorts = range(num_cohorts(kind, hashed))
    widths = [width(kind, hashed, cohort) for cohort in (cohorts if kind == "range" else [0])]
    history = undivided.get("history")
    return {
        "name": name,
        "kind": kind,
        "every": every,
        "accumulate": how,
        "metric_hash": metric_hash(undivided),
        "hashes": [metric_hash(definition(name, kind, every, hashed, given, how, part)) for part in combinations],
        "num_cohorts": len(cohorts),
        "widths": widths,
        "encoding": {"form": form, **shape},
        "silence": {"number": "0"} if how == "sum" else {"texts": []} if kind == "set" else None,
        "noise": noise_of(undivided, widths),
        "keeps_by_bit": kind == "set" and history is None and keys["max_values"] > 1,
        "slots": 1 if history else keys["max_values"],
        "micro_epsilon": micro(worst_odds(undivided, form, shape, widths)),
        "max_values": keys["max_values"],
        "expires_at": 86_400 * (keys["expires"].toordinal() - DAY_0),
        "why": keys["why"],
        "owner": keys["owner"],
    }


def shapes_of(form, every, keys):
    """With all its keys, and as a definition has it."""
    shape = {**DEFAULTS[form], **{key: exact(key, raw) for key, raw in keys.items() if key not in TERMS + NOISE}}
    shape |= left_out(form, every, shape, keys)
    return shape, {key: value for key, value in shape.items() if (key, value) != ("points", 2)}


def factor_of(name, keys):
    how = {"accumulate": keys["accumulate"]} if keys.get("accumulate", "first") != "first" else {}
    return {"name": name, "kind": keys["kind"], "shape": shapes_of(keys["kind"], keys["every"], keys)[1], **how}


def left_out(form, every, shape, keys):
    """What is chosen where nothing is said: section 9."""
    if form == "mean" and "points" not in shape:
        return {"points": best_points(keys, every)}
    if form == "set" and "items_per_report" not in shape:
        return {"items_per_report": best_items(keys, len(shape["items"]))}
    return {}


def best_points(keys, every):
    w = keys["max_values"]

    def cost(p):
        if "hold" not in keys:
            return worst_variance(p, e_to(Fraction(keys["epsilon_one_report"])))
        _, law = best([Fraction(1, p)], e_to(Fraction(keys["epsilon_history"])), w, Fraction(1, p), p)
        return worst_variance(p, odds_of_one_answer(law, w, Fraction(1, p)))

    most = 64 if "hold" in keys or every == "once" or w < 2 else w
    return min(next(p for p in range(2, 65) if p == 64 or cost(p + 1) >= cost(p)), most)


def odds_of_one_answer(law, flags, a0):
    tau, p = law["threshold"], Fraction(law["above"])
    q = tail(flags, a0, tau)

    def likely(agreeing):
        return sum(
            comb(flags - 1, k)
            * a0**k
            * (1 - a0) ** (flags - 1 - k)
            * (p / q if k + agreeing >= tau else (1 - p) / (1 - q))
            for k in range(flags)
        )

    return likely(1) / likely(0)


def worst_variance(p, odds):
    a, b = odds / (odds + p - 1), 1 / (odds + p - 1)
    points = [Fraction(2 * j, p - 1) - 1 for j in range(p)]
    found = []
    for v, after in pairwise(points):
        m = (v + after) / 2
        t = min(max(m / (a - b), v), after)
        square = v * v + 2 * m * (t - v)
        found.append((b * sum(x * x for x in points) + (a - b) * square) / (a - b) ** 2 - t * t)
    return max(found)


def best_items(keys, items):
    w = keys["max_values"]

    def cost(d):
        if "hold" not in keys:
            e = e_to(Fraction(keys["epsilon_one_report"]) / d)
            return (e / (e - 1) ** 2 + Fraction(1, 4)) / d
        half = Fraction(1, 2)
        return (best([half], e_to(Fraction(keys["epsilon_history"])), w * d, half, 2)[0] + Fraction(1, 4)) / d

    most = min(items, 64, 256 // w if "hold" in keys else 64)
    return next(d for d in range(1, most + 1) if d == most or cost(d + 1) >= cost(d))


def tail(flags, a0, tau):
    return sum(comb(flags, k) * a0**k * (1 - a0) ** (flags - k) for k in range(tau, flags + 1))


def exact(key, raw):
    """As a definition has it: limits and edges are exact numbers, written as texts."""
    if key == "edges":
        return [str(Fraction(edge)) for edge in raw]
    numeric = key in ("low", "high", "absent") and type(raw) in (int, Decimal)
    return str(Fraction(raw)) if numeric else raw


def agreement(made, tables, installs):
    same = {"app": made["app"], "recipient.name": made["recipient"]["name"], "recipient.url": made["recipient"]["url"]}
    same |= {f"segments.{key}": True for key in made["segments"]["values"]}
    at_most = {key: made[key] for key in ("lifetime_micro_epsilon", "max_identifying_bits")}
    if any("discover" in keys for keys in tables.values()):
        at_most["minus_expected_installs"] = -installs
    for metric in made["metrics"]:
        keys, name = tables[metric["name"]], f"metrics.{metric['name']}"
        retention = keys.get("retention", "2y")
        same |= {f"{name}.{key}": metric[key] for key in ("metric_hash", "why", "owner")}
        if "hold" not in keys:
            at_most[f"{name}.max_values"] = metric["max_values"]
        at_most[f"{name}.expires_day"] = metric["expires_at"] // 86_400
        at_most[f"{name}.keep_reports"] = int(keys.get("keep_reports", False))
        at_most[f"{name}.retention_days"] = int(retention[:-1]) * DAYS[retention[-1]]
    return {"same": same, "at_most": at_most}


def noise_of(metric, widths):
    if "history" not in metric:
        return {stage: channel_of(metric[stage]) for stage in ("permanent", "instantaneous")}
    law = metric["history"]
    chance = Fraction(law["chance"]) if "chance" in law else Fraction(1, law["categories"])
    sort = (
        "position"
        if "chance" in law
        else "category"
        if metric["kind"] in ("choice", "mean", "cross") and widths[0] > 1
        else "bits"
    )
    return {
        "history": {
            "sort": sort,
            "hold": law["hold"],
            "answers": law["answers"],
            "flags_per_answer": metric["shape"]["items_per_report"] if metric["kind"] == "set" else 1,
            "threshold": law["threshold"],
            "above": int(Fraction(law["above"]) * UNITS),
            "hit": chance.numerator,
            "miss": chance.denominator - chance.numerator,
            **({"chance": int(chance * UNITS)} if sort == "position" else {}),
        }
    }


def channel_of(channel):
    if "size" in channel:
        d, w, held, other = (channel[key] for key in ("categories", "size", "held", "other"))
        return {"sort": "subset", **channel, "units": comb(d - 1, w - 1) * held + comb(d - 1, w) * other}
    if "categories" in channel:
        return {
            "sort": "category",
            "categories": channel["categories"],
            "other": int(Fraction(channel["other"]) * UNITS),
        }
    return {"sort": "bits", **{key: int(Fraction(channel[key]) * UNITS) for key in ("when_one", "when_zero")}}


def worst_odds(metric, form, shape, widths):
    """Between two answers, or two histories, for one who sees everything that is ever sent about them."""
    if "history" in metric:
        law = metric["history"]
        a0 = Fraction(law["chance"]) if "chance" in law else Fraction(1, law["categories"])
        flags = law["answers"] * (shape["items_per_report"] if form == "set" else 1)
        p = Fraction(law["above"])
        q = tail(flags, a0, law["threshold"])
        return p * (1 - q) / ((1 - p) * q)
    channel = metric["permanent"]
    if "size" in channel:
        return Fraction(channel["held"], channel["other"])
    if "categories" in channel:
        return Fraction(channel["truth"]) / Fraction(channel["other"])
    a1, a0 = Fraction(channel["when_one"]), Fraction(channel["when_zero"])
    return max((a1 / a0) ** away * ((1 - a0) / (1 - a1)) ** new for away, new in differences(form, shape, widths))


def differences(form, shape, widths):
    """How many bits two masks of one install can differ by: (lost, gained)."""
    if form == "set":
        asked = shape["items_per_report"]
        return [(lost, asked - lost) for lost in range(asked + 1)]
    if widths == [1]:
        return [(1, 0), (0, 1)]
    h = shape["num_hashes"] if form == "string" else 1
    moved = min(h, shape["num_bits"] - h) if form == "string" else 1
    with_empty = [(h, 0), (0, h)] if form in ("string", "discovery") else []
    return [(moved, moved), *with_empty]


def micro(odds):
    """ln(odds) in millionths, rounded up: what a slot costs."""
    exact_log = Context(prec=80).ln(Decimal(odds.numerator)) - Context(prec=80).ln(Decimal(odds.denominator))
    return -int(-Fraction(exact_log) * MICRO // 1)
