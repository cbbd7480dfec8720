"""How a value is refused: every broken rule at once, each naming the field, the rule and the value."""

from __future__ import annotations

from collections.abc import Iterable


class Invalid(ValueError):
    """A value that breaks rules. `problems` holds one sentence for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def refuse(problems: Iterable[str]) -> None:
    """Raise `Invalid` if there is any problem. Constructors pass the generator of their broken rules."""
    found = tuple(problems)
    if found:
        raise Invalid(found)
