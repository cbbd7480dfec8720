"""A whole rehearsal: try the app once, start a rehearsal collector, let many installs live, read the estimates.

The collector is the real command in a process of its own, and so is the dashboard; every install is the real client in
the app's own code. Only the users are made up, by the app's own function.
"""

from __future__ import annotations

import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TextIO

from hubbub.analysis import decode, progress, undivided
from hubbub.client import Registry
from hubbub.dashboard.health import Health
from hubbub.dashboard.sentences import headline
from hubbub.protocol.cadence import DAY, epoch_of, epoch_start
from hubbub.protocol.invalid import Invalid, plural
from hubbub.protocol.lint import forgotten_silence
from hubbub.protocol.refusal import IN_WORDS
from hubbub.protocol.tally_files import fetch_tallies
from hubbub.simulations.fleet import leave_interrupts_to_the_parent
from hubbub.simulations.pretend_machine import state_folder
from hubbub.simulations.rehearse.app_file import AppFailed
from hubbub.simulations.rehearse.installs import AskedBy, Plan, RehearsalTotals, rehearse_installs, try_out
from hubbub.simulations.server import Collector, running_collector, running_dashboard

CHUNK = 5
"""Installs that a process takes at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """What is done with the result."""

    out: TextIO
    once: bool
    browser: bool


def run_rehearsal(plan: Plan, installs: int, processes: int, show: Show) -> int:
    """Run it, show it, and leave nothing behind."""
    started = time.monotonic()
    name = plan.app.path.name
    with state_folder() as states, _workers(processes) as pool:
        plan = replace(plan, states=states)
        asked = _learn(plan, _patient(plan, pool.submit(try_out, plan)))
        registry = Registry.parse(asked.source)
        with tempfile.TemporaryDirectory(prefix="hubbub-rehearsal-") as directory:
            folder = Path(directory)
            (folder / "metrics.toml").write_text(registry.source, encoding="utf-8")
            with running_collector(folder / "metrics.toml", folder / "data") as collector:
                _say(show, f"{plural(installs, 'install')} of {registry.app} live through {plural(plan.days, 'day')}.")
                totals = _rehearse(plan, installs, pool, collector, asked)
                _check(plan, registry, totals)
                for line in _estimates(registry, collector, totals):
                    _say(show, line)
                for line in _summary(name, totals, collector, time.monotonic() - started):
                    _say(show, line)
                if not show.once:
                    with _dashboard(collector, folder, totals) as url:
                        _wait(show, url, collector)
    return 0


def first_day(registry: Registry, days: int, now: float) -> float:
    """The beginning of the first day, so that of every metric all days, weeks or months are over when the last one is:
    reports of those that are not would never leave."""
    end = min(epoch_start(metric.every, epoch_of(metric.every, now)) for metric in registry)
    return float(end - days * DAY)


@contextmanager
def _workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes in which the app runs. If anything goes wrong they are ended, whatever they do: an app need not end."""
    context = get_context("spawn")  # an app's modules are loaded in processes of their own
    with ProcessPoolExecutor(processes, context, initializer=leave_interrupts_to_the_parent) as pool:
        try:
            yield pool
        except BaseException:
            for worker in active_children():
                worker.kill()
            raise


def _patient(plan: Plan, trial: Future[RehearsalTotals], seconds: float = 20.0) -> Future[RehearsalTotals]:
    """Wait for one run of the app, and say so where it takes long."""
    if not wait([trial], seconds).done:
        name = plan.app.path.name
        words = (
            f"{name} has been running for {seconds:.0f} s. If it goes on until it is stopped, as a server does, write"
        )
        print(
            f"{words} a function in it that does what a user does in a day: --call FUNCTION",
            file=sys.stderr,
            flush=True,
        )
    return trial


def _learn(plan: Plan, trial: Future[RehearsalTotals]) -> AskedBy:
    """What the app asks: what its client was made with."""
    found = _result(plan, trial).apps
    name = plan.app.path.name
    if not found:
        how = f"{plan.app.function}() in {name}" if plan.app.function else f"{name}, run as a script,"
        raise Invalid([f"{how} made no hubbub.client.Client, so there is nothing to rehearse"])
    if len(found) > 1:
        raise Invalid([f"{name} must ask by one registry in a rehearsal, got {', '.join(sorted(found))}"])
    (asked,) = found.values()
    return asked


def _result(plan: Plan, future: Future[RehearsalTotals]) -> RehearsalTotals:
    try:
        return future.result()
    except AppFailed as error:
        raise Invalid([str(error)]) from None
    except BrokenProcessPool:
        raise Invalid([f"{plan.app.path.name} ended the process that ran it (os._exit, or a crash)"]) from None


def _rehearse(
    plan: Plan, installs: int, pool: ProcessPoolExecutor, collector: Collector, asked: AskedBy
) -> RehearsalTotals:
    first = first_day(Registry.parse(asked.source), plan.days, time.time())
    groups = [range(start, min(start + CHUNK, installs)) for start in range(0, installs, CHUNK)]
    waiting = [pool.submit(rehearse_installs, plan, group, collector.url, asked, first) for group in groups]
    whole, done = RehearsalTotals(), 0
    try:
        for future in as_completed(waiting):
            whole.add(_result(plan, future))
            done += 1
            progress.show(done / len(groups), f"{min(done * CHUNK, installs):,} of {installs:,} installs")
    finally:
        progress.clear()
        for future in waiting:
            future.cancel()
    return whole


def _check(plan: Plan, registry: Registry, totals: RehearsalTotals) -> None:
    if not totals.records:
        name, runs = plan.app.path.name, plural(totals.runs, "run")
        how = f"call {plan.app.function}() so that it reaches them" if plan.app.function else "give it arguments"
        words = f"{name} recorded nothing in {runs}, and {registry.app} asks {', '.join(registry.metrics)}"
        raise Invalid([f"{words}: does it call telemetry.record or add? If it does, {how}"])


def _estimates(registry: Registry, collector: Collector, totals: RehearsalTotals) -> Iterator[str]:
    """What an analyst would read, of all days together, one line for each metric."""
    tallies = {tally.metric.name: tally for tally in undivided(list(fetch_tallies(collector.url, collector.token)))}
    width = max(map(len, registry.metrics))
    yield from (f"warning: {doubt}" for doubt in forgotten_silence(registry))
    yield ""
    for metric in registry:
        asked = [factor.name for factor in metric.shape.factors] or [metric.name]  # of a cross its factors are recorded
        if not any(totals.records[name] for name in asked):
            yield f"  {metric.name:<{width}}  Never recorded."
            continue
        if metric.name not in tallies:
            yield f"  {metric.name:<{width}}  No report was due in these days."
            continue
        texts = sorted(totals.texts.get(metric.name, ()))
        decoding = decode(tallies[metric.name], texts if metric.shape.open_list else None)
        yield f"  {metric.name:<{width}}  {headline(decoding).sentence}"


def _summary(name: str, totals: RehearsalTotals, collector: Collector, seconds: float) -> Iterator[str]:
    counts, health = totals.counts, collector.health()
    yield ""
    yield (
        f"{name} ran {totals.runs:,} times and recorded {totals.records.total():,} values; "
        f"{counts['made']:,} reports were made, {health.reports:,} counted. {seconds:.0f} s."
    )
    if counts["ignored_later"]:
        yield (
            f"{plural(counts['ignored_later'], 'value')} changed nothing: of several in one day, week or month the "
            "first counts, unless the metric says `accumulate`."
        )
    if counts["overflowed"]:
        yield f"{plural(counts['overflowed'], 'report')} repeat an older answer: more different ones than max_values."
    yield from _refusals(health)


def _refusals(health: Health) -> Iterator[str]:
    for reason, words in IN_WORDS.items():
        if number := health.refused.get(reason, 0):
            yield f"{plural(number, 'message')} refused: {reason} ({words})."


def _dashboard(collector: Collector, folder: Path, totals: RehearsalTotals) -> AbstractContextManager[str]:
    options: list[str] = []
    for name, texts in totals.texts.items():
        path = folder / f"{name}.txt"
        path.write_text("\n".join(sorted(texts)), encoding="utf-8")
        options += ["--candidates", f"{name}={path}"]
    return running_dashboard([collector.url], folder, *options, token=collector.token)


def _wait(show: Show, url: str, collector: Collector, sleep: Callable[[float], None] = time.sleep) -> None:
    _say(show, f"\nThe dashboard is on {url}")
    _say(show, f"The collector is on {collector.url}; its read token is {collector.token}")
    _say(show, "Both go on until you press Ctrl-C; then all of it is deleted.")
    if show.browser:
        webbrowser.open(url)
    try:
        while True:
            sleep(3600)
    except KeyboardInterrupt:
        print(file=sys.stderr)


def _say(show: Show, line: str) -> None:
    print(line, file=show.out, flush=True)
