"""docs/client-contract.md: the rules that need no install. What a yes covers, what records make together, what an
answer of the network means, how flags are drawn."""

import json
from email.utils import parsedate_to_datetime
from fractions import Fraction
from math import comb

HOUR = 3600
STATUS = {
    **{"malformed": 400, "version-unsupported": 400, "id-reused": 409, "epoch-closed": 410, "too-large": 413},
    **{"media-type-unsupported": 415, "report-impossible": 422, "epoch-in-future": 422, "metric-unknown": 404},
    **{"rate-limited": 429, "queue-full": 429, "draining": 503, "clock-not-believed": 503, "storage-full": 507},
    **{"too-many-ids": 503, "store-unreachable": 503},
}
LATER = {reason for reason, status in STATUS.items() if status in (429, 503, 507)}
STORED = {"status": 200, "headers": {}, "body": '{"status": "stored", "batch_id": "{batch_id}"}'}


def holds(old, new):
    return all(old["same"].get(key) == fact for key, fact in new["same"].items()) and all(
        key in old["at_most"] and number <= old["at_most"][key] for key, number in new["at_most"].items()
    )


def question(metric):
    shape = {k: v for k, v in metric["encoding"].items() if k != "form" and (k, v) != ("points", 2)}
    return {"kind": metric["kind"], "shape": shape}


def has_mask(metric, value):
    if metric["encoding"]["form"] == "choice":
        return value["text"] in metric["encoding"]["choices"]
    return True  # no scenario records another wrong value


def known(value, values):
    return value if value in values else "other"


def combined(metric, before, value):
    how = metric["accumulate"]
    if how == "last":
        return value
    if how == "any":
        if "flag" in value:
            return {"flag": before["flag"] or value["flag"]}
        return {"texts": sorted({*texts_of(before), *texts_of(value)})}
    numbers = [Fraction(each.get("number") or each["float"]) for each in (before, value)]
    return {"number": str(sum(numbers) if how == "sum" else max(numbers))}


def texts_of(value):
    return value["texts"] if "texts" in value else [value["text"]]


def groups(cohorts):
    """Pieces of one line that all these partitions cut."""
    return len({Fraction(cut, n) for n in {*cohorts, 1} for cut in range(n)})


def weights_of(law):
    flags = law["answers"] * law["flags_per_answer"]
    return [comb(flags, k) * law["hit"] ** k * law["miss"] ** (flags - k) for k in range(flags + 1)]


def flags_at(law, side, first, rank):
    """The flags that a number names: fewer set first, then in ascending order, each as often as its weight."""
    flags = law["answers"] * law["flags_per_answer"]
    for k, weight in enumerate(side, first):
        if rank < weight:
            each = weight // comb(flags, k)
            return [z for z in range(2**flags) if bin(z).count("1") == k][rank // each]
        rank -= weight
    raise AssertionError("unreachable: the number is below the weight of the side")


def judged(answer, batch_id):
    """Verdict, reason, the seconds that the server asks for, its clock."""
    if "fails" in answer:
        return "failed", "", 0, None
    headers = {name.lower(): text for name, text in answer["headers"].items()}
    server_time = http_date(headers.get("date"))
    wanted, retry_after = headers.get("retry-after", ""), 0
    if wanted.isdecimal():
        retry_after = int(wanted)
    elif wanted and server_time is not None:
        retry_after = max(0, (http_date(wanted) or server_time) - server_time)
    try:
        said = json.loads(answer["body"].replace("{batch_id}", batch_id))
    except ValueError:
        said = {}
    if answer["status"] == 200 and said.get("status") in ("stored", "duplicate") and said.get("batch_id") == batch_id:
        return "delivered", "", 0, server_time
    reason = said.get("type", "").removeprefix("urn:hubbub:problem:")
    if STATUS.get(reason) != answer["status"]:
        return "failed", "", retry_after, server_time
    if reason in ("metric-unknown", "epoch-in-future"):
        return "later", reason, 0, server_time
    return ("failed", "", retry_after, server_time) if reason in LATER else ("refused", reason, 0, server_time)


def http_date(text):
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (TypeError, ValueError):
        return None


def full_hour_after(moment):
    return (moment // HOUR + 1) * HOUR
