"""From a body to a batch that may be counted, or a refusal in words. Nothing here waits, writes or keeps anything.

Checked before anything is counted: the encoding and its inflated size, the form, the metrics, each report, the epochs,
and that an install (unlike a relay) sends at most one report per metric and epoch. A bad batch is refused whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping

from hubbub.collector.catalog import Catalog, check_epoch, closing_day
from hubbub.collector.message_layout import Layout, Layouts, check_block, layout_of
from hubbub.protocol.metric import Metric
from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import Batch
from hubbub.protocol.wire import BATCH_ID, CRC, MEDIA_TYPE, MEDIA_TYPE_JSON, from_json, pack, unpack


class Arrival:
    """A good batch on its way to the log: the packed message, and where things lie in it.

    `num_stopped` of the reports that came were of stopped metrics and are no longer in it. If that was all of them,
    there is no message that could be stored: `is_empty`.
    """

    __slots__ = ("id_record", "is_empty", "layout", "message", "num_stopped")

    def __init__(self, message: bytes, layout: Layout) -> None:
        self.message = message
        self.layout = layout
        self.num_stopped = 0
        self.is_empty = False
        # The crc covers all of the message, so it tells bodies apart that share an id.
        self.id_record = message[BATCH_ID] + message[CRC] + layout.closes_bytes


class Intake:
    """Reads bodies under a catalogue. `sealed` is the store's record of closed epochs, only read here.

    `day` tells the last day on which the clock was known to be right; without it the clock is always believed.
    `stopped` gives the names of the metrics whose reports are thrown away.
    """

    def __init__(
        self,
        catalog: Catalog,
        clock: Callable[[], float],
        sealed: Mapping[str, int],
        day: Callable[[], int] | None = None,
        stopped: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._stopped = stopped
        self._catalog = catalog
        self._clock = clock
        self._sealed = sealed
        self._day = day
        self._layouts = Layouts()

    def read(self, body: bytes, content_type: str, relayed: bool) -> Arrival:
        """The batch in a body, without what is stopped; raises `Refused`."""
        arrival = self._read_whole(body, content_type, relayed)
        stopped = self._stopped()
        if stopped and any(column.metric.name in stopped for column in arrival.layout.columns):
            return self._without(stopped, arrival)
        return arrival

    def _read_whole(self, body: bytes, content_type: str, relayed: bool) -> Arrival:
        if content_type == MEDIA_TYPE:
            return self._read_packed(body, relayed)
        media_type = content_type.partition(";")[0].strip().lower()
        if media_type == MEDIA_TYPE:
            return self._read_packed(body, relayed)
        if media_type == MEDIA_TYPE_JSON:
            batch = from_json(body, self._catalog.by_short_hash)
            return self._admit(pack(batch), batch, relayed)
        raise Refused(
            "media-type-unsupported", f"Content-Type must be {MEDIA_TYPE} or {MEDIA_TYPE_JSON}, got {media_type[:80]!r}"
        )

    def _read_packed(self, message: bytes, relayed: bool) -> Arrival:
        layout = self._layouts.find(message)
        # That its epochs are open was checked when the layout was made; that they still are, the store will check.
        if layout is not None and (relayed or layout.one_each) and layout.fits(message):
            return Arrival(message, layout)
        return self._admit(message, unpack(message, self._catalog.by_short_hash, check_block), relayed)

    def _admit(self, message: bytes, batch: Batch, relayed: bool) -> Arrival:
        now, day = self._clock(), None if self._day is None else self._day()
        closes = []
        for block in batch.blocks:
            if block.count > 1 and not relayed:
                raise Refused(
                    "report-impossible",
                    f"metric {block.metric.name}: an install sends at most one report an epoch, got {block.count} "
                    f"for epoch {block.epoch}; gateways use /v1/relay",
                )
            check_epoch(block.metric, block.epoch, now, self._sealed, day)
            assert isinstance(block.metric, Metric)
            closes.append(closing_day(block.metric, block.epoch))
        layout = layout_of(batch, min(closes), relayed and self._catalog.has_unpaired(batch))
        self._layouts.remember(message, layout)
        return Arrival(message, layout)

    def _without(self, stopped: Collection[str], whole: Arrival) -> Arrival:
        """What is left of a good batch. It keeps the id record of the whole, to be known when it comes again."""
        batch = unpack(whole.message, self._catalog.by_short_hash, check=lambda block: None)
        kept = tuple(block for block in batch.blocks if block.metric.name not in stopped)
        if kept:
            rest = Batch(batch.batch_id, kept)
            arrival = Arrival(pack(rest), layout_of(rest, whole.layout.closes, self._catalog.has_unpaired(rest)))
            arrival.id_record = whole.id_record
            arrival.num_stopped = whole.layout.num_reports - arrival.layout.num_reports
        else:
            arrival = whole
            arrival.num_stopped, arrival.is_empty = whole.layout.num_reports, True
        return arrival


def inflate(body: bytes, encoding: str, limit: int) -> bytes:
    """The body behind a Content-Encoding, never more than `limit` bytes of it."""
    match encoding.lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip":
            window = 16 + zlib.MAX_WBITS
        case "deflate":
            window = zlib.MAX_WBITS
        case _:
            raise Refused(
                "media-type-unsupported", f"Content-Encoding must be gzip, deflate or absent, got {encoding[:40]!r}"
            )
    inflater = zlib.decompressobj(window)
    try:
        inflated = inflater.decompress(body, limit + 1)
    except zlib.error:
        raise Refused("malformed", f"the body must be {encoding} as Content-Encoding says") from None
    if len(inflated) > limit:
        raise Refused("too-large", f"a body must have at most {limit} bytes once inflated, got more")
    if not inflater.eof or inflater.unused_data:
        raise Refused("malformed", f"the body must be one whole {encoding} stream")
    return inflated
