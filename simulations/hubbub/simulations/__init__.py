"""Know before you collect, and prove what is claimed: populations that answer through the real client code.

`simulate_metric` says what an analyst would see of a `Setting`; `audit_registry` and `audit_callable` measure what is
told; `sample_tally` draws the exact tally of any number of installs, from the counts that `assign_cohorts` and
`ones_of` give. Each is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub.simulations.audit.run import Audit, audit_callable, audit_registry
    from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
    from hubbub.simulations.people.behaviour import Behaviour
    from hubbub.simulations.people.distribution import (
        Distribution,
        default_population,
        parse_population,
        weighted_values,
    )
    from hubbub.simulations.simulate.run import Setting, SimulationResult, simulate_clients, simulate_metric
    from hubbub.simulations.simulate.scorecard import Scorecard

__all__ = [
    "Audit",
    "Behaviour",
    "Distribution",
    "Scorecard",
    "Setting",
    "SimulationResult",
    "assign_cohorts",
    "audit_callable",
    "audit_registry",
    "default_population",
    "ones_of",
    "parse_population",
    "sample_tally",
    "simulate_clients",
    "simulate_metric",
    "weighted_values",
]

_MODULES = {
    "audit.run": ("Audit", "audit_callable", "audit_registry"),
    "exact_tallies": ("assign_cohorts", "ones_of", "sample_tally"),
    "people.behaviour": ("Behaviour",),
    "people.distribution": ("Distribution", "default_population", "parse_population", "weighted_values"),
    "simulate.run": ("Setting", "SimulationResult", "simulate_clients", "simulate_metric"),
    "simulate.scorecard": ("Scorecard",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
