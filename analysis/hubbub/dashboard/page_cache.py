"""What a metric's page shows is the same for all its viewers, so it is computed once. Used by the rendering thread
alone, so it needs no lock."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from aiohttp import web

from hubbub.dashboard.metric_view import MetricView

MOST_KEPT = 64


class PageCache:
    """The newest views, by everything they depend on."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, MetricView] = OrderedDict()
        self.made = 0

    def get(self, key: Hashable, make: Callable[[], MetricView]) -> MetricView:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        self.made += 1
        self._kept[key] = make()
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


PAGE_CACHE = web.AppKey("page_cache", PageCache)
