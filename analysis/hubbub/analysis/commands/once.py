"""An option that may be given once: of two, argparse would take the last and say nothing."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from hubbub.protocol.invalid import Invalid


class Once(Action):
    """Raises `Invalid` where it is met again."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        if before is not None:
            raise Invalid([f"{option_string} must be given once, got {before} and {values}"])
        setattr(namespace, self.dest, values)
