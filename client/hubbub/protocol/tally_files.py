"""Tallies from files, folders and running collectors, and back into files. The standard library is all it needs.

tallies = read_tallies("tallies")  # a folder that `hubbub export` wrote
tallies = read_tallies("https://telemetry.example.org", token="...")  # a running collector
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hubbub.protocol.cadence import epoch_of, epoch_start, parse_epoch
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import FORMAT as PAIR_FORMAT
from hubbub.protocol.pair import Pair, PairTally
from hubbub.protocol.strict_json import loads
from hubbub.protocol.tally import FORMAT, Tally

Place = str | os.PathLike[str]
"""A path; where tallies are read from, also the address of a running collector."""
T = TypeVar("T", Tally, PairTally)
A = TypeVar("A")

_URL = ("http://", "https://")
_TALLIES = "/v1/tallies"
_PAIRS = "/v1/pairs"
_PATIENCE = 300


def read_tallies(
    *places: Place, merge: bool = False, token: str | None = None, trust: Place | None = None
) -> list[Tally]:
    """One tally for each definition found in files, folders of files, and at the addresses of collectors.

    A collector wants a read `token` (or HUBBUB_TOKEN); `trust` names certificates to trust. An epoch that comes twice
    may be the same reports twice, so adding such counts up must be asked for: `merge`. Pair tallies in a folder are
    passed over. Raises `Invalid` with the file and what is wrong with it, and OSError where there is none.
    """
    found: list[tuple[Place, Tally]] = []
    for place in places:
        if _is_url(place):
            found += [(place, tally) for tally in fetch_tallies(str(place), _token(token), trust=trust)]
            continue
        here = _read(Path(place), Tally.from_data, PAIR_FORMAT)
        if not here:
            raise Invalid([f"{place}: a folder must hold tally files, got none but pair tallies"])
        found += here
    return _added_up(found, merge)


def read_pair_tallies(
    *places: Place, merge: bool = False, token: str | None = None, trust: Place | None = None
) -> list[PairTally]:
    """The same for pairs, one pair tally for each: what `[together]` has counted. A folder may hold none of them."""
    found: list[tuple[Place, PairTally]] = []
    for place in places:
        if _is_url(place):
            found += [(place, tally) for tally in fetch_pair_tallies(str(place), _token(token), trust=trust)]
        else:
            found += _read(Path(place), PairTally.from_data, FORMAT)
    return _added_up(found, merge)


def is_pair_file(place: Place) -> bool:
    """Whether a file says that it holds a pair tally. What cannot be read is said by whoever reads it."""
    path = Path(place)
    try:
        data = _json(path.read_bytes()) if path.is_file() else None
    except (OSError, Invalid):
        return False
    return isinstance(data, dict) and data.get("format") == PAIR_FORMAT


def _added_up(found: Iterable[tuple[Place, T]], merge: bool) -> list[T]:
    together: dict[str, T] = {}
    for place, tally in found:
        key = tally.metric.metric_hash
        if key in together:
            twice = sorted(set(together[key].epochs) & set(tally.epochs))
            if twice and not merge:
                again = f"{place}: epoch {twice[0]} of {tally.metric.name} was read before"
                raise Invalid([f"{again}; --merge (in Python, merge=True) adds such files up"])
            tally = together[key] + tally
        together[key] = tally
    return list(together.values())


def _is_url(place: Place) -> bool:
    return isinstance(place, str) and place.startswith(_URL)


def _token(token: str | None) -> str:
    return token or os.environ.get("HUBBUB_TOKEN", "")


def _read(path: Path, from_data: Callable[[object], T], passed_over: str) -> list[tuple[Place, T]]:
    """What the file holds; of a folder, such as `hubbub export` writes, all its JSON files but those of one format, and
    but the truth that `hubbub simulate --out` writes beside."""
    files = [each for each in sorted(path.glob("*.json")) if each.suffixes[-2:] != [".truth", ".json"]]
    if not path.is_dir():
        files = [path]
    if not files:
        raise Invalid([f"{path}: a folder must hold tally files, got none that ends in .json"])
    found: list[tuple[Place, T]] = []
    for file in files:
        with _named(file):
            data = _json(file.read_bytes())
            if file is path or not isinstance(data, dict) or data.get("format") != passed_over:
                found.append((file, from_data(data)))
    return found


def read_any_tally(path: Path) -> Tally | PairTally:
    """One file, of a metric or of a pair."""
    with _named(path):
        data = _json(path.read_bytes())
        is_pair = isinstance(data, dict) and data.get("format") == PAIR_FORMAT
        return PairTally.from_data(data) if is_pair else Tally.from_data(data)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What is wrong within is wrong with this file."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{path}: {problem}" for problem in error.problems) from None


def _json(source: bytes) -> object:
    try:
        data: object = loads(source)
    except (ValueError, RecursionError) as error:
        raise Invalid([f"not a tally: not JSON: {error}"]) from None
    return data


def write_tallies(tallies: Iterable[Tally | PairTally], folder: Place) -> list[Path]:
    """One file for each definition or pair, replaced whole: NAME.json, or NAME-HASH.json where a name has several."""
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


def write_tally(tally: Tally | PairTally, path: Path) -> Path:
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

    def has(self, metric: Definition | Pair, epoch: int) -> bool:
        """Whether this epoch of this metric or pair is one of them."""
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


class HandedOut(NamedTuple):
    """What a collector hands out, and of how many reports more it does not (of a pair: of how many batches)."""

    tallies: list[Tally]
    withheld: list[Withheld]
    pairs: list[PairTally] = []  # noqa: RUF012  # of a pair's own path, or of a store that was read whole


def fetch_tallies(url: str, token: str, wanted: Wanted | None = None, trust: Place | None = None) -> list[Tally]:
    """The tallies of a running collector. Raises `Invalid` with its address and what it said."""
    return fetch_answer(url, token, wanted, trust).tallies


def fetch_answer(url: str, token: str, wanted: Wanted | None = None, trust: Place | None = None) -> HandedOut:
    """The same, and what the collector withholds."""
    return _fetch(url, _TALLIES, token, wanted, trust, answer_from_json)


def fetch_pair_tallies(
    url: str, token: str, wanted: Wanted | None = None, trust: Place | None = None
) -> list[PairTally]:
    """The pair tallies of a running collector. Raises `Invalid` with its address and what it said."""
    return fetch_pair_answer(url, token, wanted, trust).pairs


def fetch_pair_answer(url: str, token: str, wanted: Wanted | None = None, trust: Place | None = None) -> HandedOut:
    """The same, and what the collector withholds."""
    return _fetch(url, _PAIRS, token, wanted, trust, pair_answer_from_json)


def _fetch(
    url: str,
    path: str,
    token: str,
    wanted: Wanted | None,
    trust: Place | None,
    read: Callable[[bytes], A],
) -> A:
    import ssl
    import urllib.error
    import urllib.parse
    import urllib.request

    if not url.startswith(_URL):
        raise Invalid([f"url must begin with http:// or https://, got {url!r}"])
    base = url.rstrip("/").removesuffix(_TALLIES)  # which a collector's greeting shows
    request = urllib.request.Request(  # noqa: S310  # the scheme has been checked
        f"{base}{path}?{urllib.parse.urlencode(wanted.query if wanted else {})}",
        headers={"Authorization": f"Bearer {token}"},
    )
    context = ssl.create_default_context(cafile=None if trust is None else os.fspath(trust))
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE, context=context) as response:  # noqa: S310
            return read(response.read())
    except urllib.error.HTTPError as error:
        raise Invalid([f"{url}: {error.code} {_detail(error.read())}"]) from None
    except urllib.error.URLError as error:
        reason = error.reason.strerror if isinstance(error.reason, OSError) else None
        raise Invalid([f"{url}: {reason or error.reason}"]) from None
    except Invalid as error:
        raise Invalid(f"{url}: {problem}" for problem in error.problems) from None


def tallies_to_json(tallies: Iterable[Tally]) -> str:
    """The answer to GET /v1/tallies: `{"tallies": [...]}`, each as a tally file has it."""
    return '{"tallies": [' + ",\n".join(tally.to_json().rstrip("\n") for tally in tallies) + "]}\n"


def answer_from_json(body: bytes) -> HandedOut:
    """What a collector says. Raises `Invalid` for anything else."""
    answer = _answer(body, "tallies")
    return HandedOut([Tally.from_data(item) for item in answer["tallies"]], withheld_from_data(answer))


def pair_answer_from_json(body: bytes) -> HandedOut:
    """What a collector says of pairs. Raises `Invalid` for anything else."""
    answer = _answer(body, "pairs")
    return HandedOut([], withheld_from_data(answer), [PairTally.from_data(item) for item in answer["pairs"]])


def _answer(body: bytes, key: str) -> dict[str, Any]:
    try:
        answer = loads(body)
    except (ValueError, RecursionError):
        raise Invalid(["must answer with JSON"]) from None
    if not isinstance(answer, dict) or not isinstance(answer.get(key), list):
        raise Invalid([f"must answer with {key}"])
    return answer


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
