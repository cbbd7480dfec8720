"""Small registries, written as apps write them: TOML text."""

from __future__ import annotations

from hubbub.client import Registry
from tests.registry_head import head


def metric(name: str, kind: str = "flag", every: str = "day", **keys: object) -> str:
    """One metric. Anything that TOML can say may be given as it would stand there: `choices='["a", "b"]'`."""
    terms = {
        "kind": f'"{kind}"',
        "every": f'"{every}"',
        "why": '"Decide something"',
        "owner": '"somebody@example.org"',
        "expires": "2090-01-01",
        "epsilon_one_report": 1,
        "epsilon_permanent": 3,
        "max_values": 1 if every == "once" else 2,
        **({"num_bits": 64, "num_hashes": 1, "num_cohorts": 4} if kind == "string" else {}),
        **({"low": 0, "high": 30, "absent": 0} if kind == "mean" else {}),
        **({"edges": [0, 10, 100, 1000], "buckets_per_report": 2} if kind == "histogram" else {}),
        **({"low": 0, "high": 256, "num_leaves": 16, "branching": 4} if kind == "range" else {}),
        **({"choices": '["red", "green", "blue"]'} if kind == "choice" else {}),
        **({"items": '["export", "macros", "vim_keys"]', "items_per_report": 2} if kind == "set" else {}),
        **keys,
    }
    return f"[metrics.{name}]\n" + "".join(f"{key} = {term}\n" for key, term in terms.items())


def held(name: str, kind: str = "flag", every: str = "day", **keys: object) -> str:
    """A metric with `hold`; its epsilon is 4, unless `epsilon_history` says otherwise."""
    text = metric(name, kind, every, **{"epsilon_history": 4, "hold": 4, "max_values": 4, **keys})
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith(("epsilon_one", "epsilon_perm")))


def source(*metrics: str, lifetime: float = 60, app: str = "org.example.editor", segments: str = "") -> str:
    return head(app, lifetime) + (f"[segments]\n{segments}\n" if segments else "") + "".join(metrics)


def registry(*metrics: str, lifetime: float = 60, app: str = "org.example.editor", segments: str = "") -> Registry:
    return Registry.parse(source(*metrics, lifetime=lifetime, app=app, segments=segments))


def clear_metric(name: str, kind: str = "flag", **keys: object) -> str:
    """A metric with so little noise that a report shows the value: for tests of what is reported, not of its noise."""
    text = metric(name, kind, **{"prob_f": '"1/16777216"', "prob_p": 0, "prob_q": 1, **keys})
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith("epsilon"))


def clear(*metrics: str) -> Registry:
    return registry(*metrics, lifetime=10_000)
