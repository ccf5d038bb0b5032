"""Processor time of works that take turns in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

Work = Callable[[], object]
Times = Mapping[str, list[float]]


def seconds(work: Work) -> float:
    """Return the processor time of one call; what other processes do on the machine does not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def alternate(works: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Let works take turns, after a first call of each that does not count.

    Args:
        works: The works by name.
        rounds: The number of turns of each; every second round goes through them in reverse.

    Returns:
        The processor seconds of each work in every round.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for number in range(rounds):
        for name in list(works)[:: 1 if number % 2 else -1]:
            times[name].append(seconds(works[name]))
    return times


def ratio(times: Times, above: str, below: str) -> float:
    """Return the median over the rounds of one work's time divided by another's.

    >>> ratio({"a": [2.0, 4.0, 9.0], "b": [1.0, 2.0, 3.0]}, "a", "b")
    2.0
    """
    return statistics.median(a / b for a, b in zip(times[above], times[below], strict=True))
