"""Two processes train one model: the same parameters in both, and the losses of one process on twice the batch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
import toy_tasks
import trainings
from safetensors.torch import load_file
from small_texts import blocks, documents
from thorough import often
from toy_tasks import FOLNET, Filled, FilledOptions, MarkedOptions

import peirce
from peirce.registry import Registry
from peirce_text.pretraining.task import Pretraining, PretrainingOptions
from peirce_text.text.tokenizer import Tokenizer
from peirce_training import Checkpoints, TrainingOptions, plain_options, train

HEADS = [{"use": "mlm"}, {"use": "classification"}, {"use": "pair", "as": "unused"}]
DROPPING = FOLNET.replace({"model.heads": HEADS})
PLAIN = DROPPING.replace({"model.regularisation.dropout": 0.0})
# A large epsilon, because Adam makes full steps of gradients that are nothing but rounding (a key's bias).
OPTIONS = TrainingOptions(
    steps=10, lr=1e-2, epsilon=1e-3, save_every=5, evaluate_every=5, threads=1, device="cpu", log_every=5
)
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "ddp": {},
    "ddp-accumulating": {"accumulate": 2},
    "fsdp": {"parallel": "fsdp"},
    "fsdp-lamb": {"parallel": "fsdp", "optimizer": "lamb", "epsilon": 1e-6, "accumulate": 2, "checkpointing": True},
}  # fmt: skip
FEW = ("ddp", "fsdp")
"""Those that every run has."""
INTERRUPTED = {
    "steps": 6,
    "save_every": 2,
    "evaluate_every": 0,
    "accumulate": 2,
    **CHANGES["fsdp"],
    "optimizer": "lamb",
}


def launch(arguments: Sequence[object]) -> list[subprocess.CompletedProcess[str]]:
    """Two processes that train together, over gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        **os.environ, "PYTHONPATH": str(Path(toy_tasks.__file__).parent), "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true", "LOCAL_WORLD_SIZE": "2",
    }  # fmt: skip
    command = [sys.executable, *map(str, arguments)]
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
    done = []
    try:
        for process in processes:
            output, errors = process.communicate(timeout=600)
            done.append(subprocess.CompletedProcess(command, process.returncode, output, errors))
            assert process.returncode == 0, errors
    finally:
        for process in processes[len(done) :]:  # one that waits for another that is gone
            process.kill()
            process.communicate()
    return done


def plain(options: TrainingOptions, **changes: Any) -> dict[str, Any]:
    return plain_options(attrs.evolve(options, **changes))


TEXT = PLAIN.replace({"model.positions.0.cls": True})
PRETRAINING = {**CHANGES["fsdp"], "monitor": "mlm_loss", "evaluate_every": 10}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Settings of `pretraining` on a few documents."""
    folder = tmp_path_factory.mktemp("text")
    # More than 20 steps need: an epoch ends at another place for another size of batches.
    made = documents(100)
    (folder / "text.txt").write_text(blocks(made))
    (folder / "tokenizer.json").write_bytes(Tokenizer.train(blocks(made).splitlines(), 120).content)
    files = [str(folder / "text.txt")]
    return {"files": files, "valid_files": files, "tokenizer": str(folder), "length": 24, "valid_rows": 16}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes trained: the first of CHANGES, and one training whole and interrupted."""
    dropping = {"spec": DROPPING, "options": plain(OPTIONS, **INTERRUPTED)}
    interrupted = [
        {"name": "whole", **dropping},
        {"name": "part", **dropping, "fail_at": 9},  # in the fifth step
        {"name": "part", **dropping, "resume": True},
    ]
    return trained(tmp_path_factory.mktemp("two"), [*map(changed, FEW), *interrupted])


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory, text: Mapping[str, Any]) -> Path:
    """The others of CHANGES, and text."""
    options, task = plain(OPTIONS, **PRETRAINING), {**text, "batch_size": 8}
    pretrained = {"name": "text", "on": "pretraining", "spec": TEXT, "options": options, "task": task}
    others = [changed(name) for name in CHANGES if name not in FEW]
    return trained(tmp_path_factory.mktemp("more"), [*others, pretrained])


def changed(name: str) -> dict[str, Any]:
    change = CHANGES[name]
    task = {"batch": 8 // change.get("accumulate", 1)}
    return {"name": name, "spec": PLAIN, "options": plain(OPTIONS, **change), "task": task}


def trained(folder: Path, listed: Sequence[Mapping[str, Any]]) -> Path:
    """The folder, after two processes made these trainings in it."""
    named = [{**each, "spec": f"{number}.toml"} for number, each in enumerate(listed)]
    for each, file in zip(listed, named, strict=True):
        (folder / file["spec"]).write_text(each["spec"].to_toml())
    (folder / "trainings.json").write_text(json.dumps(named))
    launch(["-W", "error", trainings.__file__, folder])
    return folder


@pytest.mark.parametrize("name", often(CHANGES, FEW))
def test_two_processes_are_one_with_twice_the_batch(
    name: str, parts: Registry, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Targets differ in number from batch to batch and from term to term; a head that nothing trains is there."""
    two = request.getfixturevalue("two" if name in FEW else "more")
    options = attrs.evolve(OPTIONS, **{**CHANGES[name], "accumulate": 1, "parallel": "ddp"})
    alone = train(PLAIN, Filled(FilledOptions(batch=16)), options, tmp_path, registry=parts)
    found, _ = Checkpoints(two / name, 1).newest()
    assert found is not None
    losses = found.tensors["losses"]
    assert losses["losses"].tolist() == pytest.approx(alone.losses, rel=1e-5)
    assert set(alone.terms) == {"filled", "upper"}
    for term, values in alone.terms.items():
        assert losses[f"term/{term}"].tolist() == pytest.approx(values, rel=1e-5)
    assert {group for group in found.tensors if group.startswith("random")} == {"random-0", "random-1"}
    weights = load_file(two / name / "weights.safetensors")
    torch.testing.assert_close(weights, load_file(tmp_path / "weights.safetensors"), rtol=1e-3, atol=1e-5)
    assert peirce.load(two / name, registry=parts).spec == alone.model.spec
    metrics = json.loads((two / name / "metrics.json").read_text())
    for ours, theirs in zip(metrics["during_training"], alone.evaluations, strict=True):
        assert ours["metrics"] == pytest.approx(theirs["metrics"], rel=1e-4)


@pytest.mark.thorough
def test_two_processes_pretrain_as_one(
    more: Path, text: Mapping[str, Any], parts: Registry, tmp_path: Path
) -> None:
    """Sharded, by a task that runs parts of its model by themselves; masks depend on seed, epoch and example."""
    task = Pretraining(PretrainingOptions(**text, batch_size=16))
    options = attrs.evolve(OPTIONS, **{**PRETRAINING, "parallel": "ddp"})
    alone = train(TEXT, task, options, tmp_path, registry=parts)
    found, _ = Checkpoints(more / "text", 1).newest()
    assert found is not None
    for term, values in {"mlm": alone.terms["mlm"], "pair": alone.terms["pair"]}.items():
        assert found.tensors["losses"][f"term/{term}"].tolist() == pytest.approx(values, rel=1e-5)
    assert found.tensors["losses"]["losses"].tolist() == pytest.approx(alone.losses, rel=1e-5)
    metrics = json.loads((more / "text" / "metrics.json").read_text())
    assert metrics["test"] == pytest.approx(alone.metrics, rel=1e-4)


def test_processes_that_hold_parts_resume_to_the_bit(two: Path) -> None:
    """With dropout, and LAMB, whose state is sharded as the parameters are."""
    (first, _), (second, _) = (Checkpoints(two / name, 1).newest() for name in ("whole", "part"))
    assert first is not None
    assert second is not None
    assert len(first.tensors["losses"]["losses"]) == 6
    assert torch.equal(first.tensors["losses"]["losses"], second.tensors["losses"]["losses"])
    for file in ("weights.safetensors", "checkpoints/step-00000006/optimizer.safetensors"):
        assert (two / "whole" / file).read_bytes() == (two / "part" / file).read_bytes()


def test_checkpoints_of_processes_are_those_of_one(two: Path) -> None:
    """Whoever holds a part of a tensor, a checkpoint holds the whole."""
    first, second = (Checkpoints(two / name, 1).newest()[0] for name in ("ddp", "fsdp"))
    assert first is not None
    assert second is not None
    for group in ("model", "optimizer"):
        shapes = [{name: t.shape for name, t in found.tensors[group].items()} for found in (first, second)]
        assert shapes[0] == shapes[1]


@pytest.mark.thorough
def test_the_command_prints_in_the_first_process_alone(registry_file: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(PLAIN.to_toml())
    sets = ("train.steps=2", "train.device=cpu", "train.parallel=fsdp", "train.precision=bf16")
    command = [
        "-m",
        "peirce",
        "--registry",
        registry_file,
        "train",
        tmp_path / "spec.toml",
        "--task",
        "filled",
    ]
    done = launch([*command, "-o", tmp_path / "model", *(f"--set={setting}" for setting in sets)])
    assert "saved in" in done[0].stdout
    assert done[1].stdout == ""
    record = json.loads((tmp_path / "model" / "training.json").read_text())
    assert record["processes"] == 2
    assert record["parameters"] == sum(p.numel() for p in peirce.build(_vocabulary()).parameters())


def _vocabulary() -> peirce.Spec:
    return PLAIN.replace({"model.input.vocabulary": 2 + MarkedOptions().tokens})
