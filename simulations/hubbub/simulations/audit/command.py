"""`hubbub audit`: what the client tells, measured against what its registry claims."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import Any

from hubbub.analysis import progress
from hubbub.protocol.arguments import number, whole
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry
from hubbub.simulations.audit.any_callable import load
from hubbub.simulations.audit.run import TRIALS, Audit, audit_callable, audit_registry, table


def add_audit(parser: ArgumentParser) -> None:
    parser.epilog = (
        "exit status: 0 every claim stands, 1 a claim fails, 2 wrong use\n\n"
        "examples:\n"
        "  hubbub audit metrics.toml\n"
        "  hubbub audit metrics.toml --trials 100000 --json\n"
        "  hubbub audit --module mylibrary.rappor:encode --epsilon 1.07 --values '\"a\"' '\"b\"'"
    )
    parser.add_argument("metrics", metavar="METRICS.TOML", nargs="?", help="the registry whose claims are tested")
    parser.add_argument("--module", metavar="PKG.MOD:CALLABLE", help="audit this callable, value -> bits, instead")
    parser.add_argument("--epsilon", type=number, help="what the callable claims")
    parser.add_argument("--values", nargs=2, metavar=("VALUE", "OTHER"), help="two values for it, as JSON or as text")
    parser.add_argument(
        "--trials", type=whole, default=TRIALS, help=f"for each metric, half for each value (default: {TRIALS})"
    )
    parser.add_argument(
        "--installs", type=whole, help="whole clients to run; 0 leaves them out (default: trials / 800)"
    )
    parser.add_argument("--json", action="store_true", help="all findings as JSON")


def run_audit(arguments: Namespace) -> int:
    audit = _audit(arguments, progress.show)
    progress.clear()
    print(json.dumps(audit.to_json(), indent=2) if arguments.json else table(audit))
    return 0 if audit.passed else 1


def _audit(arguments: Namespace, report: progress.NamedProgress) -> Audit:
    if (arguments.metrics is None) == (arguments.module is None):
        raise Invalid(["give either a METRICS.TOML or --module"])
    if arguments.module is None:
        for option in ("epsilon", "values"):
            if getattr(arguments, option) is not None:
                raise Invalid([f"--{option} is for --module; a registry says its own"])
        registry = Registry.load(arguments.metrics)
        return audit_registry(registry, trials=arguments.trials, installs=arguments.installs, progress=report)
    if arguments.epsilon is None or arguments.values is None:
        raise Invalid(["--module needs --epsilon and --values VALUE OTHER"])
    if arguments.installs is not None:
        raise Invalid(["--installs is for a METRICS.TOML; a callable has none"])
    one, other = (_value(text) for text in arguments.values)
    return audit_callable(
        load(arguments.module),
        (one, other),
        arguments.epsilon,
        trials=arguments.trials,
        name=arguments.module,
        progress=report,
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
