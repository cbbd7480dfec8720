"""Know before you collect, and prove what is claimed: populations that answer through the real client code.

`simulate_metric` says what an analyst would see of a `Setting`; `audit_registry` and `audit_callable` measure what is
told; `sample_tally` draws the exact tally of any number of installs, from the counts that `assign_cohorts` and
`ones_of` give. Each is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.protocol.door import door

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

__getattr__, __dir__ = door(
    __name__,
    {
        "Audit": "hubbub.simulations.audit.run",
        "Behaviour": "hubbub.simulations.people.behaviour",
        "Distribution": "hubbub.simulations.people.distribution",
        "Scorecard": "hubbub.simulations.simulate.scorecard",
        "Setting": "hubbub.simulations.simulate.run",
        "SimulationResult": "hubbub.simulations.simulate.run",
        "assign_cohorts": "hubbub.simulations.exact_tallies",
        "audit_callable": "hubbub.simulations.audit.run",
        "audit_registry": "hubbub.simulations.audit.run",
        "default_population": "hubbub.simulations.people.distribution",
        "ones_of": "hubbub.simulations.exact_tallies",
        "parse_population": "hubbub.simulations.people.distribution",
        "sample_tally": "hubbub.simulations.exact_tallies",
        "simulate_clients": "hubbub.simulations.simulate.run",
        "simulate_metric": "hubbub.simulations.simulate.run",
        "weighted_values": "hubbub.simulations.people.distribution",
    },
)
