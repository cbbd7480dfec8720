"""How a scenario is written: its steps, and what the network says."""

DAY, HOUR = 86_400, 3600
MONDAY = 1_794_787_200  # 2026-11-16
URL = "https://telemetry.example.org"


def at(day, hour=0, minute=0, second=0):
    """A moment: days after Monday, 2026-11-16."""
    return MONDAY + DAY * day + HOUR * hour + 60 * minute + second


def start(moment, registry="small", segments=None, environ=None, endpoint=URL):
    return {
        "at": moment,
        "do": "start",
        "registry": registry,
        "segments": segments or {},
        "environ": environ or {},
        "endpoint": endpoint,
    }


def stop(moment):
    return {"at": moment, "do": "stop"}


def yes(moment):
    return {"at": moment, "do": "consent", "agreed": True}


def no(moment):
    return {"at": moment, "do": "consent", "agreed": False}


def record(moment, metric, value, do="record"):
    if isinstance(value, bool):
        value = {"flag": value}
    elif isinstance(value, str):
        value = {"text": value}
    elif isinstance(value, list):
        value = {"texts": value}
    elif isinstance(value, float):
        value = {"float": repr(value)}
    elif isinstance(value, int):
        value = {"number": str(value)}
    return {"at": moment, "do": do, "metric": metric, "value": value}


def see(moment):
    """Nothing happens but that time has passed; how things stand is looked at."""
    return {"at": moment, "do": "see"}


def plain(do, moment, **more):
    return {"at": moment, "do": do, **more}


def answer(status, reason=None, body=None, **headers):
    text = f'{{"type": "urn:hubbub:problem:{reason}", "status": {status}}}' if reason else body or ""
    return {
        "status": status,
        "headers": {name.replace("_", "-"): value for name, value in headers.items()},
        "body": text,
    }


FAILS = {"fails": "no connection"}
