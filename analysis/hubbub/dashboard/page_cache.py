"""The inside of a metric's page is the same for all its viewers, so it is made once. Used by the rendering thread
alone, so it needs no lock."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from aiohttp import web
from markupsafe import Markup

MOST_KEPT = 64


class PageCache:
    """The newest insides, by everything they depend on."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Markup] = OrderedDict()
        self.made = 0

    def get(self, key: Hashable, make: Callable[[], Markup]) -> Markup:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        self.made += 1
        self._kept[key] = make()
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


PAGE_CACHE = web.AppKey("page_cache", PageCache)
