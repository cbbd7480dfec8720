"""Lists of candidates: one string a line, UTF-8. Wrong files are refused in words, by their name."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from hubbub.protocol.invalid import Invalid

MOST_CANDIDATES = 1_000_000


def read_candidates(path: str | Path) -> list[str]:
    """The candidates in a file, empty lines left out."""
    return parse_candidates(Path(path).read_bytes(), str(path))


def parse_candidates(content: bytes, name: str) -> list[str]:
    """The candidates in a file's content: one a line, empty ones left out. Raises `Invalid`, calling it by its name."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid([f"{name}: must be UTF-8, got a wrong byte at {error.start}"]) from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise Invalid([f"{name}: at least one candidate is needed, got none"])
    if len(lines) > MOST_CANDIDATES:
        raise Invalid([f"{name}: at most {MOST_CANDIDATES:,} candidates, got {len(lines):,}"])
    return lines


def paths_by_metric(given: Iterable[str], metrics: Collection[str], open_metrics: Collection[str]) -> dict[str, str]:
    """The paths of `[METRIC=]FILE` arguments by metric; one given without a metric is for all whose list is open."""
    found: dict[str, str] = {}
    for item in given:
        name, equals, path = item.partition("=")
        if equals and name in metrics:
            found[name] = path
        elif equals and not Path(item).exists():
            raise Invalid([f"--candidates {item}: no tally of a metric {name!r} was given"])
        elif not open_metrics:
            raise Invalid([f"--candidates {item}: none of the tallies is of a string metric"])
        else:
            found.update(dict.fromkeys(open_metrics, item))
    return found
