"""Whole histories: sections 9 and 10 of docs/wire-format.md. The law that keeps an epsilon, and how flags are drawn."""

from fractions import Fraction
from math import comb

UNITS = 2**24


def history(kind, shape, widths, given, e_to):
    """What `hold`, `max_values` and `epsilon_history` ask for. `widths` are those of all cohorts."""
    w, odds = int(given["max_values"]), e_to(Fraction(given["epsilon_history"]))
    head = {"hold": int(given["hold"]), "answers": w}
    one_bit = kind in ("flag", "set") or widths == [1] * len(widths)
    if one_bit or kind == "mean":
        d = 2 if one_bit else widths[0]
        flags = w * (shape["items_per_report"] if kind == "set" else 1)
        return {**head, **best([Fraction(1, d)], odds, flags, Fraction(1, d), d)[1]}
    share = Fraction(len(widths), sum(widths))
    steps = [Fraction(1, 2)] + [Fraction(m, 2**j) for j in range(4, 25) for m in (7, 6, 5, 4)]
    found = best([a0 for a0 in steps if a0 >= 1 / (2 * w * (1 + odds))], odds, w, share, None)
    if kind in ("choice", "cross"):
        d = widths[0]
        categories = best([Fraction(1, d)], odds, w, Fraction(1, d), d)
        found = categories if categories[0] <= found[0] else found
    return {**head, **found[1]}


def best(chances, odds, flags, share, d):
    found = None
    for a0 in chances:
        law = [comb(flags, k) * a0**k * (1 - a0) ** (flags - k) for k in range(flags + 1)]
        for tau in range(1, flags + 1):
            q = sum(law[tau:])
            p = Fraction(int(odds * q / (1 - q + odds * q) * UNITS), UNITS)
            if p <= q:
                continue
            raised = [x * (p / q if k >= tau else (1 - p) / (1 - q)) for k, x in enumerate(law)]
            a1 = sum(k * x for k, x in enumerate(raised)) / flags
            lie = a0 if d is None else (1 - a1) / (d - 1)
            variance = lie * (1 - lie) / (a1 - lie) ** 2 + share * (1 - lie - a1) / (a1 - lie)
            if found is None or variance < found[0]:
                sent_as = {"chance": str(a0)} if d is None else {"categories": d}
                found = variance, {"threshold": tau, "above": str(p), **sent_as}
    return found


def truth_of(law, flags):
    """a1 of a history of so many flags that are yes or no."""
    weights = [comb(flags, k) for k in range(flags + 1)]
    tau, p = law["threshold"], Fraction(law["above"])
    above, below = sum(weights[tau:]), sum(weights[:tau])
    law_of_count = [w * (p / above if k >= tau else (1 - p) / below) for k, w in enumerate(weights)]
    return sum(k * x for k, x in enumerate(law_of_count)) / flags


def drawn_flags(law, flags, chance):
    """From random bytes: the flags, and how many bytes were used."""
    a0 = Fraction(law["chance"]) if "chance" in law else Fraction(1, law["categories"])
    hit, miss = a0.numerator, a0.denominator - a0.numerator
    above = int.from_bytes(chance[:3], "little") < Fraction(law["above"]) * UNITS
    tau = law["threshold"]
    side = []  # every choice of flags on this side, fewest first, each as often as its weight says
    for k in range(tau, flags + 1) if above else range(tau):
        side += [(mask, hit**k * miss ** (flags - k)) for mask in range(2**flags) if bin(mask).count("1") == k]
    total = sum(weight for _, weight in side)
    digits = len(bin(total - 1)) - 2 if total > 1 else 0
    size, used = -(-digits // 8), 3
    while True:
        number = int.from_bytes(chance[used : used + size], "little") >> (8 * size - digits)
        used += size
        if number < total:
            break
    for mask, weight in side:
        if number < weight:
            return mask, used
        number -= weight
    raise AssertionError("unreachable")
