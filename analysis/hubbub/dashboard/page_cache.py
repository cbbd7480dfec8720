"""The inside of a page is the same for all its viewers, so it is made once. Used by the painting thread alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from hubbub.dashboard.html import Html

MOST_KEPT = 64


class Painted:
    """The newest insides, by everything they depend on."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Html] = OrderedDict()
        self.made = 0

    def get(self, key: Hashable, paint: Callable[[], Html]) -> Html:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        self.made += 1
        self._kept[key] = paint()
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]
