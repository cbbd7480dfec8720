"""The demo's table has columns of fixed width, and says beside a row what is wrong with it."""

from __future__ import annotations

import io

from hubbub.simulations.demo.run import DemoRow, Screen, _table


def row(
    metric: str, value: str, truth: float, *, visible: bool = True, number: bool = False, segment: str = ""
) -> DemoRow:
    return DemoRow(
        metric=metric,
        value=value,
        truth=truth,
        estimate=0.5,
        low=0.4,
        high=0.6,
        noise_floor=0.05,
        visible=visible,
        number=number,
        segment=segment,
    )


def test_rows_stand_in_columns_and_marks_beside_them() -> None:
    rows = [
        row("theme", "yes", 0.45),
        row("page", "news", 0.7),
        row("page", "mail", 0.45, visible=False),
        row("page", "maps", 0.7),
        row("speed", "mean", 0.45, number=True),
        row("theme", "yes", 0.45, segment="platform linux"),
        row("theme", "yes", 0.7, segment="platform macos"),
    ]
    bar, empty, *lines = _table(rows, 5, 20)
    assert (bar, empty) == ("[########......................] 5 of 20 installs have reported", "")
    interval = "40.0 % to 60.0 %"
    assert lines == [
        line("metric", "value", "truth", "estimate", "95 % interval", "noise floor"),
        line("theme", "yes", "45.0 %", "50.0 %", interval, "5.0 %"),
        line("page", "news", "70.0 %", "50.0 %", interval, "5.0 %") + "  misses the truth",
        line("", "mail", "45.0 %", "50.0 %", interval, "") + "  below the noise floor",
        line("", "maps", "70.0 %", "50.0 %", interval, "") + "  misses the truth",
        line("speed", "mean", "0.45", "0.50", "0.40 to 0.60", "").rstrip(),
        "",
        line("theme", "yes, platform linux", "45.0 %", "50.0 %", interval, "5.0 %"),
        line("", "yes, platform macos", "70.0 %", "50.0 %", interval, "") + "  misses the truth",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_low_terminal_only_the_last_table_is_whole(monkeypatch) -> None:
    """It goes up as many lines as it wrote, never more than the terminal has."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "6")
    out = Terminal()
    screen = Screen(out)
    lines = [f"line {i}" for i in range(9)]
    screen.show(lines)
    assert out.getvalue() == "".join(f"line {i}\x1b[K\n" for i in range(5))
    screen.show(lines, last=True)
    assert out.getvalue().partition("\x1b[5A")[2] == "".join(f"line {i}\x1b[K\n" for i in range(9))


def line(metric: str, value: str, truth: str, estimate: str, interval: str, floor: str) -> str:
    return f"  {metric:<13} {value:<26} {truth:>8} {estimate:>9}   {interval:<18} {floor:>11}"
