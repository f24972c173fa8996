"""Two processes train one model: the same parameters in both, and the losses of twice the batches in one step."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import torch
import toy_tasks
from peirce.registry import Registry
from peirce_plugins.tasks.checkpoints import Checkpoints
from peirce_plugins.tasks.loop import TrainingOptions, train
from safetensors.torch import load_file
from toy_tasks import TRANSFORMER, Marked, MarkedOptions

SPEC = TRANSFORMER.replace(
    {"model.regularisation.dropout": 0.0, "model.heads": [{"use": "classification"}, {"use": "mlm"}]}
)
# A large epsilon, because Adam makes full steps of gradients that are nothing but rounding (a key's bias).
OPTIONS = TrainingOptions(
    steps=6, lr=1e-2, epsilon=1e-3, save_every=3, evaluate_every=3, accumulate=2, threads=1, device="cpu"
)


def test_two_processes_are_one_with_twice_the_batches(
    parts: Registry, registry_file: Path, tmp_path: Path
) -> None:
    alone = train(
        SPEC, Marked(MarkedOptions()), attrs.evolve(OPTIONS, accumulate=4), tmp_path / "one", registry=parts
    )
    (tmp_path / "spec.toml").write_text(SPEC.to_toml())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    keys = ("steps", "lr", "epsilon", "save_every", "evaluate_every", "accumulate", "threads")
    sets = ["train.device=cpu", *(f"train.{key}={getattr(OPTIONS, key)}" for key in keys)]
    command = [sys.executable, "-m", "peirce", "--registry", registry_file, "train", tmp_path / "spec.toml"]
    command += ["--task", "marked", "-o", tmp_path / "two"]
    command += [part for setting in sets for part in ("--set", setting)]
    common = {
        **os.environ, "PYTHONPATH": str(Path(toy_tasks.__file__).parent), "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true", "LOCAL_WORLD_SIZE": "2",
    }  # fmt: skip
    processes = [
        subprocess.Popen(
            command,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    printed = []
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        printed.append(output)
    assert "saved in" in printed[0]
    assert printed[1] == ""
    found, _ = Checkpoints(tmp_path / "two", 1).newest()
    assert found is not None
    assert found.tensors["losses"]["losses"].tolist() == pytest.approx(alone.losses, rel=1e-5)
    assert {name for name in found.tensors if name.startswith("random")} == {"random-0", "random-1"}
    one, two = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "two"))
    torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-5)
