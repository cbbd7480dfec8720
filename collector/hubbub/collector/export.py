"""Counters as tallies: over HTTP, or straight from the directory of a collector that is not running."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from hubbub.collector.storage.checkpoint import MetricEpoch
from hubbub.collector.storage.counting import Cells
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.log import Damaged
from hubbub.collector.storage.store import Store
from hubbub.protocol.cadence import epoch_of, epoch_start, parse_epoch
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Tally


class Wanted:
    """Which tallies: of one metric (by name or hash) or all, from one period to another, both included.

    A period is a day, a week or a month, whatever the cadence of the metric: `from=2026-11` begins on November 1st.
    """

    def __init__(self, metric: str | None = None, start: str | None = None, end: str | None = None) -> None:
        self.metric = metric
        self._start = None if start is None else _period("from", start)[0]
        self._end = None if end is None else _period("to", end)[1]

    def has(self, metric: Definition, epoch: int) -> bool:
        """Whether this epoch of this metric is one of them."""
        if self.metric is not None and self.metric not in (metric.name, metric.metric_hash):
            return False
        if self._start is not None and epoch < epoch_of(metric.every, self._start):
            return False
        return self._end is None or epoch <= epoch_of(metric.every, self._end)


def select(store: Store, wanted: Wanted) -> dict[MetricEpoch, Cells]:
    """Copies of the counters wanted, with everything in them that has been acknowledged. On the store's thread."""
    store.fold()
    return {key: cells.copy() for key, cells in store.cells.items() if wanted.has(cells.metric, key[1])}


def tallies(cells: Mapping[MetricEpoch, Cells]) -> list[Tally]:
    """One tally for each definition, by name; definitions that share a name stay apart."""
    metrics = {metric_hash: counted.metric for (metric_hash, _), counted in cells.items()}
    return [
        Tally(metric, {epoch: counted.counts() for (key, epoch), counted in cells.items() if key == metric_hash})
        for metric_hash, metric in sorted(metrics.items(), key=lambda item: (item[1].name, item[0]))
    ]


def to_json(found: Iterable[Tally]) -> str:
    """The answer to GET /v1/tallies: `{"tallies": [...]}`, each as a tally file has it."""
    return '{"tallies": [' + ",\n".join(tally.to_json().rstrip("\n") for tally in found) + "]}\n"


def from_data(data: Path, wanted: Wanted, clock: Callable[[], float]) -> list[Tally]:
    """The tallies in the directory of a collector that is not running."""
    data_dir = DataDir(data, create=False)
    try:
        try:
            store = Store(data_dir, None, clock)
        except Damaged as error:
            raise Invalid([f"the log is damaged; restore a backup. {error}"]) from None
        try:
            return tallies(select(store, wanted))
        finally:
            store.close()
    finally:
        data_dir.close()


def from_url(url: str, token: str, query: Mapping[str, str | None], trust: Path | None = None) -> list[Tally]:
    """The tallies of a running collector."""
    if not url.startswith(("http://", "https://")):
        raise Invalid([f"url must begin with http:// or https://, got {url!r}"])
    asked = urllib.parse.urlencode({name: value for name, value in query.items() if value is not None})
    base = url.rstrip("/").removesuffix("/v1/tallies")  # which a collector's greeting shows
    request = urllib.request.Request(  # noqa: S310  # the scheme has been checked
        f"{base}/v1/tallies?{asked}",
        headers={"Authorization": f"Bearer {token}"},
    )
    context = ssl.create_default_context(cafile=None if trust is None else str(trust))
    try:
        with urllib.request.urlopen(request, timeout=300, context=context) as response:  # noqa: S310
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        raise Invalid([f"{url}: {error.code} {_detail(error.read())}"]) from None
    except urllib.error.URLError as error:
        raise Invalid([f"{url}: {error.reason}"]) from None
    except ValueError:
        raise Invalid([f"{url}: must answer with JSON"]) from None
    if not isinstance(answer, dict) or not isinstance(answer.get("tallies"), list):
        raise Invalid([f"{url}: must answer with tallies"])
    return [Tally.from_json(json.dumps(item)) for item in answer["tallies"]]


def write(found: Iterable[Tally], out: Path) -> list[Path]:
    """One file for each definition, replaced whole: NAME.json, or NAME-HASH.json where a name has several."""
    found = list(found)
    names = [tally.metric.name for tally in found]
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for tally in found:
        several = names.count(tally.metric.name) > 1
        stem = f"{tally.metric.name}-{tally.metric.metric_hash[:8]}" if several else tally.metric.name
        unfinished = out / f"{stem}.json.part"
        unfinished.write_text(tally.to_json(), encoding="utf-8")
        paths.append(unfinished.replace(out / f"{stem}.json"))
    return paths


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
