"""How a metrics.toml asks for a whole history: `hold`, `max_values` and `epsilon_history`, and what goes with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from hubbub.protocol import epsilon as eps
from hubbub.protocol.channel import Noise
from hubbub.protocol.history import LONGEST_HOLD, MOST_ANSWERS, MOST_FLAGS
from hubbub.protocol.invalid import say
from hubbub.protocol.shape import Shape


def suited_to_history(shape: Shape, given: Mapping[str, Any]) -> Shape:
    """Fills in omitted keys with the best values, where all is given that decides it, and keeps to its limits."""
    if not {"hold", "epsilon_history", "max_values"} <= given.keys() or any(_broken(given, ())):
        return shape
    return shape.suited_to_history(given["epsilon_history"], given["max_values"], given.keys())


def history_noise(shape: Shape | None, given: Mapping[str, Any], others: list[str]) -> tuple[Noise | None, list[str]]:
    """The noise that these keys ask for, or what is wrong with them. `others` are the keys of another noise that are
    given besides."""
    problems = list(_broken(given, others))
    if problems or shape is None or "max_values" not in given:
        return None, problems
    flags = given["max_values"] * shape.flags_per_answer
    if shape.num_hashes > 1:
        return None, [f"num_hashes must be 1 where hold is set: a flag is seen as one bit, got {shape.num_hashes}"]
    if flags > MOST_FLAGS:
        return None, [f"max_values x items_per_report must be at most {MOST_FLAGS} where hold is set, got {flags}"]
    history = shape.best_history(given["epsilon_history"], given["hold"], given["max_values"])
    return shape.history_noise(history), []


def _broken(given: Mapping[str, Any], others: list[str] | tuple[()]) -> Iterator[str]:
    if "epsilon_history" not in given:
        yield (
            "hold needs epsilon_history, what all max_values answers together may tell, in place of "
            "epsilon_one_report and epsilon_permanent: an install is then asked in one epoch out of hold, which it "
            "picks at random, max_values times in all; for 13 weeks write hold = 13, max_values = 4, "
            "epsilon_history = 4"
        )
    elif others:
        yield f"epsilon_history is all the noise that hold needs: leave out {', '.join(others)}"
    if "hold" not in given:
        yield "epsilon_history needs hold, in one epoch out of how many an install is asked; hold is missing"
    elif not 1 <= given["hold"] <= LONGEST_HOLD:
        yield f"hold must be in [1, {LONGEST_HOLD}] epochs, got {given['hold']}"
    if given.get("every") == "once":
        yield f"""hold must be left out where every = "once", got {given.get("hold")}"""
    epsilon: Fraction | None = given.get("epsilon_history")
    if epsilon is not None and not eps.in_limits(epsilon):
        yield f"epsilon_history must be in [{say(eps.SMALLEST)}, {say(eps.LARGEST)}], got {say(epsilon)}"
    if not 1 <= given.get("max_values", 1) <= MOST_ANSWERS:
        yield f"max_values must be in [1, {MOST_ANSWERS}] where hold is set, got {given['max_values']}"
