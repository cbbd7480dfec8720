"""The timers of this process: which there are, the thread that repeats each one's `step`, forks, and the end.

One per state, registry and endpoint, however many clients there are. A timer belongs to the process: it ends with the
process, or when the last of its clients is closed; a client that is merely dropped does not end it. Before a fork every
thread is asked to stop, so that no child is born from a process of several threads; both sides start it again.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from os.path import exists

from hubbub.client import tls
from hubbub.client.recorder import Withdrawn
from hubbub.client.state import Unusable
from hubbub.client.timer import LOOK_EVERY, Timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.vocabulary import Owner

FORK_PATIENCE = 0.25
"""Seconds that a fork or a `close` waits for a thread to end; for one that is sending neither waits."""

Key = tuple[object, ...]

_lock = threading.RLock()
_shared: weakref.WeakValueDictionary[Key, Timer] = weakref.WeakValueDictionary()
_all: weakref.WeakSet[Timer] = weakref.WeakSet()
_uses: dict[Timer, int] = {}
"""How many clients have joined each timer and not left it. One that was dropped never leaves."""
_running: set[Timer] = set()
"""Timers with a thread. Strongly: nobody else may know them any more."""


def timer_for(key: Key | None, make: Callable[[], Timer]) -> Timer:
    """The timer of this process with this key, made if there is none; without a key always a new one."""
    with _lock:
        timer = None if key is None else _shared.get(key)
        if timer is None:
            timer = make()
            _all.add(timer)
            if key is not None:
                _shared[key] = timer
        return timer


def run(timer: Timer) -> None:
    """Let a thread repeat the timer's steps. It may fail while Python shuts down: nothing is lost."""
    with _lock:
        _running.add(timer)
        if not wake(timer):
            _start(timer)


def _start(timer: Timer) -> None:
    timer.thread = threading.Thread(target=_repeat, args=(timer,), name="hubbub-timer", daemon=True)
    with suppress(RuntimeError):
        timer.thread.start()


def wake(timer: Timer) -> bool:
    """Let the thread look for something to do now. False if there is none."""
    with timer.condition:
        if timer.thread is None or not timer.thread.is_alive():
            return False
        timer.poked = True
        timer.condition.notify_all()
        return True


def end(timer: Timer) -> None:
    """Stop the thread, and leave to other processes what it holds and has not begun to send. Raises what a transaction
    raises."""
    with _lock:
        _running.discard(timer)
        thread = _stop(timer)
    if thread is not None and thread is not threading.current_thread() and not timer.is_sending():
        thread.join(FORK_PATIENCE)
    timer.release()


def _stop(timer: Timer) -> threading.Thread | None:
    """Ask the thread to stop after the step it is in."""
    thread, timer.thread = timer.thread, None
    if timer.condition.acquire(timeout=FORK_PATIENCE):
        timer.condition.notify_all()
        timer.condition.release()
    return thread


def join(timer: Timer, owner: Owner) -> None:
    """A client will use this timer until it leaves."""
    with _lock:
        _uses[timer] = _uses.get(timer, 0) + 1
    timer.join(owner)


def leave(timer: Timer, owner: Owner) -> None:
    """A client is closed, or may no longer send. The last one ends the thread."""
    timer.leave(owner)
    with _lock:
        _uses[timer] -= 1
        last = _uses[timer] == 0
        if last:
            del _uses[timer]
    if last:
        end(timer)


def running() -> list[Timer]:
    """All timers that have a thread."""
    with _lock:
        return list(_running)


def _repeat(timer: Timer) -> None:
    me = threading.current_thread()
    while timer.thread is me:
        try:
            comes_again = timer.step()
        except (Withdrawn, Unusable, OSError) as error:
            for owner in timer.owners():
                owner._told_by_timer(error)
            break
        with timer.condition:
            left = min(comes_again - timer.clock(), LOOK_EVERY)
            if timer.thread is me and left > 0 and not timer.poked:
                timer.condition.wait(left)
            timer.poked = False
    with _lock, timer.condition:
        if timer.thread is me:
            _running.discard(timer)
            timer.thread = None
            timer.condition.notify_all()


# --- forks --------------------------------------------------------------------------------------------------------


def _before_fork() -> None:
    _lock.acquire()
    deadline = time.monotonic() + FORK_PATIENCE
    stopped = []
    for timer in _running:
        thread = _stop(timer)
        if thread is not None and thread is not threading.current_thread() and not timer.is_sending():
            stopped.append(thread)
    _wait_for_the_end_of(stopped, deadline)


def _wait_for_the_end_of(threads: list[threading.Thread], deadline: float) -> None:
    """`join` returns a little before the operating system's thread is gone, and Python warns of a fork by counting
    those."""
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        task = f"/proc/self/task/{thread.native_id}"
        while thread.native_id and exists(task) and time.monotonic() < deadline:
            time.sleep(0.0001)


def _after_fork_in_parent() -> None:
    for timer in _running:
        _start(timer)
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()  # another thread may have waited for the old one
    tls.begin_again_in_child()
    for timer in _all:
        timer.begin_again_in_child()
    for timer in _running:
        _start(timer)


if hasattr(os, "register_at_fork"):  # after the state's: theirs run inside ours
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
