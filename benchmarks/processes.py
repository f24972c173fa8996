"""Data-parallel training: two processes against one with two threads, and what more processes would say to each other.

Measured here: a training step of a FOLNet-base layer in one process with two threads, and in two gloo processes of one
thread with half the batch each; and an all-reduce between them, by its size.

On paper: a step of folnet-base and folnet-large on 8, 64 and 512 GPUs, from the constants of this file. Each GPU sends,
and receives alike, of P parameters on N GPUs

    DDP    2 (N - 1) / N x P x bytes of a gradient: an all-reduce is a reduce-scatter and an all-gather
    FSDP   3 (N - 1) / N x P x bytes: all-gathers of the weights for the forward and the backward pass, a reduce-scatter

python benchmarks/processes.py [--repeats N] [--batch N] [--length N]
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from layer import VOCABULARY, network
from measuring import beside, operations, parsed, record, spread
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import peirce

SIZES = (1 << 14, 1 << 18, 1 << 22, 1 << 24)
"""Bytes of the all-reduces."""
GPUS = (8, 64, 512)
NODE = 8
"""GPUs of a node."""
PEAK, SHARE = 989e12, 0.4
"""Operations a second of an H100 in bfloat16, and the share of them that a step is taken to reach."""
BYTES_A_SECOND = {"node": 360e9, "nodes": 40e9}
"""What collectives are taken to move through one GPU: NVLink 4 in a node, 400 Gb/s InfiniBand for each GPU between."""
TEXTS, LENGTH = 32, 128
"""Of each GPU in a step."""
ALONE = ("step, one process, two threads", 0.0)
BYTES = 4
"""Of a gradient in DDP, and of a weight or a gradient in FSDP: float32, as autocast keeps them."""


def step(model: nn.Module, batch: int, length: int) -> Callable[[], None]:
    """One pass of a batch, and its gradients."""
    ids = torch.randint(VOCABULARY, (batch, length))

    def run() -> None:
        model.zero_grad()
        outputs = model(input_ids=ids)
        (outputs["unary"].square().mean() + outputs["binary"].square().mean()).backward()

    return run


def work(rank: int, port: int, batch: int, length: int, orders: Connection) -> None:
    """One of the two processes: it runs what it is asked to, and sends wall and CPU seconds."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    training = step(DistributedDataParallel(network(fuse=True).train()), batch, length)
    while (order := orders.recv()) is not None:
        values = torch.zeros(order // 4)
        dist.barrier()
        wall, cpu = time.perf_counter(), time.process_time()
        if order:
            dist.all_reduce(values)
        else:
            training()
        orders.send((time.perf_counter() - wall, time.process_time() - cpu))
    dist.destroy_process_group()


def measured(repeats: int, batch: int, length: int) -> list[dict[str, Any]]:
    """The steps, in turns, and the all-reduces."""
    alone = step(network(fuse=True).train(), batch, length)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = processes.get_context("spawn")
    pipes, workers = [], []
    for rank in range(2):
        own, its = context.Pipe()
        workers.append(context.Process(target=work, args=(rank, port, batch // 2, length, its)))
        workers[-1].start()
        pipes.append(own)

    def one() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        alone()
        return time.perf_counter() - wall, time.process_time() - cpu

    def two(order: int) -> tuple[float, float]:
        for pipe in pipes:
            pipe.send(order)
        walls, cpus = zip(*(pipe.recv() for pipe in pipes), strict=True)
        return max(walls), sum(cpus)

    ways: dict[tuple[str, float], Callable[[], tuple[float, float]]] = {
        ALONE: one,
        ("step, two processes", 0.0): lambda: two(0),
    }
    ways |= {("all-reduce, two processes", size / 2**20): (lambda size=size: two(size)) for size in SIZES}
    for way in ways.values():
        way()
    times: dict[tuple[str, float], list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            times[name].append(way())
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe.send(None)
        worker.join()
    walls = {name: [wall for wall, _ in own] for name, own in times.items()}
    return [
        {"what": what, "MiB": mib or None}
        | spread("ms", [1e3 * wall for wall in walls[what, mib]])
        | spread("CPU ms", [1e3 * cpu for _, cpu in times[what, mib]])
        | (beside("time / one process", walls[what, mib], walls[ALONE]) if not mib else {})
        for what, mib in ways
    ]


def on_paper(name: str) -> list[dict[str, Any]]:
    """The rows of a model: what a step computes, sends and takes on 8, 64 and 512 GPUs."""
    with torch.no_grad():
        model = peirce.build(name).eval().to("meta")
        count = operations(lambda: model(input_ids=torch.zeros(1, LENGTH, dtype=torch.int64, device="meta")))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    computing = 3 * count * TEXTS / (PEAK * SHARE)
    rows = []
    for gpus in GPUS:
        for way, passes in (("DDP", 2), ("FSDP", 3)):
            sent = passes * (gpus - 1) / gpus * parameters * BYTES
            sending = sent / BYTES_A_SECOND["node" if gpus <= NODE else "nodes"]
            rows.append(
                {
                    "what": "on paper",
                    "model": name,
                    "parameters, millions": parameters / 1e6,
                    "way": way,
                    "GPUs": gpus,
                    "computing, ms": computing * 1e3,
                    "sent, MiB": sent / 2**20,
                    "sending, ms": sending * 1e3,
                    "speedup, nothing overlaps": gpus * computing / (computing + sending),
                    "speedup, all overlaps": gpus * computing / max(computing, sending),
                    "state, GiB a GPU": parameters * 16 / (gpus if way == "FSDP" else 1) / 2**30,
                }
            )
    return rows


def main() -> None:
    options = parsed(
        __doc__,
        7,
        ("--batch", {"type": int, "default": 8}),
        ("--length", {"type": int, "default": 128}),
        threads=2,
    )
    paper = [row for name in ("folnet-base", "folnet-large") for row in on_paper(name)]
    rows = measured(options.repeats, options.batch, options.length) + paper
    columns = dict.fromkeys(column for row in rows for column in row)
    record("processes", [dict.fromkeys(columns) | row for row in rows])


if __name__ == "__main__":
    main()
