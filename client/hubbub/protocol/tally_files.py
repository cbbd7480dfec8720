"""Tallies from files, folders and running collectors, and back into files. The standard library is all it needs.

tallies = read_tallies("tallies")  # a folder that `hubbub export` wrote
tallies = read_tallies("https://telemetry.example.org", token="...")  # a running collector
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hubbub.protocol.cadence import epoch_of, epoch_start, parse_epoch
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Tally

Place = str | os.PathLike[str]

_URL = ("http://", "https://")
_TALLIES = "/v1/tallies"
_PATIENCE = 300


def read_tallies(
    *places: Place, merge: bool = False, token: str | None = None, trust: Place | None = None
) -> list[Tally]:
    """One tally for each definition found in files, folders of files, and at the addresses of collectors.

    A collector wants a read `token` (or HUBBUB_TOKEN); `trust` names certificates to trust. An epoch that comes twice
    may be the same reports twice, so adding such counts up must be asked for: `merge`. Raises `Invalid` with the file
    and what is wrong with it, and OSError where there is none.
    """
    found: dict[str, Tally] = {}
    for place, tally in _each(places, token, trust):
        key = tally.metric.metric_hash
        if key in found:
            twice = sorted(set(found[key].epochs) & set(tally.epochs))
            if twice and not merge:
                raise Invalid(
                    [f"{place}: epoch {twice[0]} of {tally.metric.name} was read before; --merge adds such files up"]
                )
            tally = found[key] + tally
        found[key] = tally
    return list(found.values())


def _each(places: Iterable[Place], token: str | None, trust: Place | None) -> Iterator[tuple[Place, Tally]]:
    for place in places:
        if isinstance(place, str) and place.startswith(_URL):
            for tally in fetch_tallies(place, token or os.environ.get("HUBBUB_TOKEN", ""), trust=trust):
                yield place, tally
        else:
            for path in _files(Path(place)):
                yield path, read_tally(path)


def _files(path: Path) -> list[Path]:
    """The file itself; of a folder, such as `hubbub export` writes, all its JSON files."""
    if not path.is_dir():
        return [path]
    inside = sorted(path.glob("*.json"))
    if not inside:
        raise Invalid([f"{path}: a folder must hold tally files, got none that ends in .json"])
    return inside


def read_tally(path: Path) -> Tally:
    """One file."""
    try:
        return Tally.from_json(path.read_bytes())
    except Invalid as error:
        raise Invalid(f"{path}: {problem}" for problem in error.problems) from None


def write_tallies(tallies: Iterable[Tally], folder: Place) -> list[Path]:
    """One file for each definition, replaced whole: NAME.json, or NAME-HASH.json where a name has several."""
    found = list(tallies)
    names = [tally.metric.name for tally in found]
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for tally in found:
        several = names.count(tally.metric.name) > 1
        stem = f"{tally.metric.name}-{tally.metric.metric_hash[:8]}" if several else tally.metric.name
        paths.append(write_tally(tally, out / f"{stem}.json"))
    return paths


def write_tally(tally: Tally, path: Path) -> Path:
    """One file, put into its place whole: nobody ever reads half of it."""
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(tally.to_json(), encoding="utf-8")
    return unfinished.replace(path)


# --- over HTTP ----------------------------------------------------------------------------------------------------


class Wanted:
    """Which tallies: of one metric (by name or hash) or all, from one period to another, both included.

    A period is a day, a week or a month, whatever the cadence of the metric: `from=2026-11` begins on November 1st.
    """

    def __init__(self, metric: str | None = None, start: str | None = None, end: str | None = None) -> None:
        self.metric = metric
        self._start = None if start is None else _period("from", start)[0]
        self._end = None if end is None else _period("to", end)[1]
        self.query: Mapping[str, str] = {
            key: text for key, text in (("metric", metric), ("from", start), ("to", end)) if text is not None
        }

    def has(self, metric: Definition, epoch: int) -> bool:
        """Whether this epoch of this metric is one of them."""
        if self.metric is not None and self.metric not in (metric.name, metric.metric_hash):
            return False
        if self._start is not None and epoch < epoch_of(metric.every, self._start):
            return False
        return self._end is None or epoch <= epoch_of(metric.every, self._end)


class Withheld(NamedTuple):
    """Reports that a collector has counted and does not show yet: counts grow in steps of at least `min_reports`."""

    metric: str
    metric_hash: str
    epoch: int
    num_reports: int
    min_reports: int


class Answer(NamedTuple):
    """What a collector hands out, and of how many reports more it does not."""

    tallies: list[Tally]
    withheld: list[Withheld]


def fetch_tallies(url: str, token: str, wanted: Wanted | None = None, trust: Place | None = None) -> list[Tally]:
    """The tallies of a running collector. Raises `Invalid` with its address and what it said."""
    return fetch_answer(url, token, wanted, trust).tallies


def fetch_answer(url: str, token: str, wanted: Wanted | None = None, trust: Place | None = None) -> Answer:
    """The same, and what the collector withholds."""
    import ssl
    import urllib.error
    import urllib.parse
    import urllib.request

    if not url.startswith(_URL):
        raise Invalid([f"url must begin with http:// or https://, got {url!r}"])
    base = url.rstrip("/").removesuffix(_TALLIES)  # which a collector's greeting shows
    request = urllib.request.Request(  # noqa: S310  # the scheme has been checked
        f"{base}{_TALLIES}?{urllib.parse.urlencode(wanted.query if wanted else {})}",
        headers={"Authorization": f"Bearer {token}"},
    )
    context = ssl.create_default_context(cafile=None if trust is None else os.fspath(trust))
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE, context=context) as response:  # noqa: S310
            return answer_from_json(response.read())
    except urllib.error.HTTPError as error:
        raise Invalid([f"{url}: {error.code} {_detail(error.read())}"]) from None
    except urllib.error.URLError as error:
        raise Invalid([f"{url}: {error.reason}"]) from None
    except Invalid as error:
        raise Invalid(f"{url}: {problem}" for problem in error.problems) from None


def tallies_to_json(tallies: Iterable[Tally]) -> str:
    """The answer to GET /v1/tallies: `{"tallies": [...]}`, each as a tally file has it."""
    return '{"tallies": [' + ",\n".join(tally.to_json().rstrip("\n") for tally in tallies) + "]}\n"


def answer_from_json(body: bytes) -> Answer:
    """What a collector says. Raises `Invalid` for anything else."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise Invalid(["must answer with JSON"]) from None
    if not isinstance(answer, dict) or not isinstance(answer.get("tallies"), list):
        raise Invalid(["must answer with tallies"])
    return Answer([Tally.from_data(item) for item in answer["tallies"]], withheld_from_data(answer))


def withheld_from_data(answer: Mapping[str, object]) -> list[Withheld]:
    """What an answer says it withholds; nothing if it does not say."""
    items = answer.get("withheld", [])
    keys = Withheld._fields
    if not isinstance(items, list) or not all(isinstance(item, dict) and set(item) == set(keys) for item in items):
        raise Invalid([f"withheld must be a list of objects with exactly the keys {', '.join(keys)}"])
    for item in items:
        for key in keys:
            expected = str if key in ("metric", "metric_hash") else int
            if type(item[key]) is not expected:
                kind = "a text" if expected is str else "a whole number"
                raise Invalid([f"{key} of what is withheld must be {kind}, got {brief(item[key])}"])
    return [Withheld(**item) for item in items]


def _period(field: str, text: str) -> tuple[int, int]:
    """The first and the last second of a day, a week or a month."""
    for every in ("day", "week", "month"):
        try:
            epoch = parse_epoch(every, text)
            return epoch_start(every, epoch), epoch_start(every, epoch + 1) - 1
        except ValueError:
            continue
    raise Invalid([f"{field} must be a day, week or month such as 2026-11-16, 2026-W47 or 2026-11, got {text[:40]!r}"])


def _detail(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return "without a reason"
