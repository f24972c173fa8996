from __future__ import annotations

import os

import pytest
import torch

from peirce.resources import usable_cores
from peirce_training.processes import thread_advice


@pytest.mark.parametrize(
    ("threads", "processes", "load", "said"),
    [
        (4, 1, 0.0, None),
        (8, 1, 0.0, "8 threads compute on 4 cores, where each waits for others; set train.threads=4"),
        (2, 4, 0.0, "8 threads compute on 4 cores, where each waits for others; set train.threads=1"),
        (
            4,
            1,
            9.0,
            "9 other threads share 4 cores, and 4 that wait for each other suffer; set train.threads=1",
        ),
        (1, 1, 9.0, None),
    ],
)
def test_threads_beyond_the_cores_are_named(
    monkeypatch: pytest.MonkeyPatch, threads: int, processes: int, load: float, said: str | None
) -> None:
    monkeypatch.setattr("peirce_training.processes.usable_cores", lambda: 4)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load), raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert thread_advice() == said


def test_a_process_may_use_the_cores_that_it_is_bound_to(monkeypatch: pytest.MonkeyPatch) -> None:
    usable_cores.cache_clear()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3}, raising=False)
    try:
        assert usable_cores() in (1, 2)  # a container's quota may be lower
    finally:
        usable_cores.cache_clear()
