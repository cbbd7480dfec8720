"""The scenarios of docs/client-contract.md, run through `install.py`: what happens, and what must come of it."""

import copy

from compiled_registry import compiled
from install import Install
from registries import REGISTRIES
from rules import known
from scenarios import SCENARIOS

KEY, NUMBER = bytes(range(32)), 1_234_567_890_123_456_789


def replayed(scenario, registries):
    """A scenario with the numbers that chance gave, what was sent, and how things stood after each step."""
    identities = [(bytes.fromhex(each["key"]), int(each["number"])) for each in scenario["identities"]]
    install = Install(scenario["about"], identities, scenario.get("network", ()))
    install.now, install.wake = scenario["steps"][0]["at"], float("inf")
    install.looked_at, install.looks_at = float("inf"), -float("inf")
    steps = []
    for step in scenario["steps"]:
        if step["do"] != "clock":
            install.pass_until(step["at"])
        act(install, step, registries)
        then = {} if install.running is None or step["do"] == "sleep" else {"then": copy.deepcopy(install.status())}
        steps.append({**step, **then})
    assert not install.network, f"{scenario['about']}: {len(install.network)} answers were not asked for"
    return {
        "about": scenario["about"],
        "rules": scenario["rules"].split(),
        "identities": [life for life in install.lives if life["draws"]] or install.lives[:1],
        "draws": install.draws,
        "steps": steps,
        "messages": install.messages,
    }


def act(install, step, registries):
    match step["do"]:
        case "start":
            given = {"registry": registries[step["registry"]], "environ": step["environ"], "endpoint": step["endpoint"]}
            values = given["registry"]["segments"]["values"]
            segment = {key: known(step["segments"].get(key), values[key]) for key in values}
            install.running = {**given, "segment": segment}
            install.looked_at, install.looks_at = float("inf"), -float("inf")
            install.decide()
        case "stop":
            install.running, install.waiting = None, {}
        case "consent":
            install.consent(step["agreed"])
        case "forget":
            install.forget()
        case "record" | "add":
            install.record(step["metric"], step["value"])
        case "sleep":
            install.wake += step["until"] - step["at"]
        case "copy":
            install.copied()
        case "clock":
            install.now = step["at"]


def behaviour():
    registries = {name: compiled(toml) for name, toml in REGISTRIES.items()}
    identities = [
        {"key": KEY.hex(), "number": str(NUMBER)},
        {"key": KEY[::-1].hex(), "number": str(2**62 - 1 - NUMBER)},
    ]
    return [replayed({"identities": identities, **scenario}, registries) for scenario in SCENARIOS]


def compiled_registries():
    return [{"about": name, "toml": toml, "compiled": compiled(toml)} for name, toml in REGISTRIES.items()]
