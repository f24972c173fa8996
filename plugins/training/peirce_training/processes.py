"""The processes, devices and threads of a training."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from peirce.compose import refuse_missing_gpu
from peirce.errors import TaskError
from peirce.files import hold_lock
from peirce.resources import usable_cores
from peirce_training.options import TrainingOptions


def make_accelerator(options: TrainingOptions) -> Any:
    """Accelerate's view of the processes and devices, an `Accelerator`.

    Accelerate keeps its state in the process; what an earlier training left there is dropped, so that trainings with
    different settings can follow each other.

    Raises:
        TaskError: the precision does not work on the device.
    """
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedDataParallelKwargs, GradientAccumulationPlugin

    if options.device == "cuda":
        refuse_missing_gpu("cuda")
    is_single = not PartialState._shared_state or PartialState().num_processes == 1
    AcceleratorState._reset_state(reset_partial_state=is_single)
    accelerator = Accelerator(
        cpu=options.device == "cpu",
        mixed_precision=options.precision,
        # The loop divides and synchronises by itself, for batches that do not come from a torch DataLoader.
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1, sync_with_dataloader=False),
        # A task need not use every head of a model.
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    if options.precision == "fp16" and accelerator.device.type == "cpu":
        raise TaskError("train.precision=fp16 needs a GPU, and there is none to train on; use bf16 or no")
    return accelerator


_RANKS = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""The variables in which launchers give a process its rank, as Accelerate reads them."""


def is_first_process() -> bool:
    """Whether this is the process that writes and prints: the first of several, or the only one."""
    return all(os.environ.get(name, "0") == "0" for name in _RANKS)


@contextmanager
def exclusive_lock(directory: Path) -> Iterator[None]:
    """Within it no other training writes to a folder, which is made if it is not there.

    Of several processes of one training, the first asks for all of them.

    Raises:
        BusyError: another training writes there.
    """
    if not is_first_process():
        yield
        return
    with hold_lock(directory, folder=True):
        yield


def thread_advice() -> str | None:
    """Advice where this process and those beside it have more threads than there are cores, or other programs keep the
    cores busy; else None."""
    processes, cores = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), usable_cores()
    count, on = torch.get_num_threads() * processes, f"{cores} core{'s' if cores > 1 else ''}"
    if count > cores:
        few = max(1, cores // processes)
        return f"{count} threads compute on {on}, where each waits for others; set train.threads={few}"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if count > 1 and load > cores + 1:
        return f"{load:.0f} other threads share {on}, and {count} that wait for each other suffer; set train.threads=1"
    return None


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within it torch has so many threads; 0 leaves their number."""
    before = torch.get_num_threads()
    try:
        if count:
            torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)
