"""What others reported of saving, loading, wrapping and plugging in, tried here."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_specs import FOLNET, TRANSFORMER
from torch import nn
from torch.nn.utils import prune

import peirce
from peirce.errors import InputError, ModelFileError, PeirceError, RegistryError, WriteError
from peirce.files import UnreadableError, read_tensors
from peirce.model import Model, check_published, unwrap
from peirce.networks.channels import Projections
from peirce.registry import Registry, find_registry_file

IDS = torch.randint(0, 40, (2, 5), generator=torch.Generator().manual_seed(0))


def small(spec: peirce.Spec = TRANSFORMER) -> Model:
    return peirce.build(spec.replace({"model.dims.layers": 1})).eval()


def projections(model: nn.Module) -> list[nn.Linear]:
    return [each for owner in model.modules() if isinstance(owner, Projections) for each in owner.children()]  # type: ignore[misc]


@pytest.mark.report(
    "https://github.com/DLR-RM/stable-baselines3/issues/2137",
    "a policy whose part was compiled is saved and cannot be loaded, since its names begin with `_orig_mod.`",
    "a save writes the names that the spec makes, whatever part is compiled or wrapped",
)
def test_the_names_of_wrappers_are_not_saved(tmp_path: Path) -> None:
    model = small()
    expected = model(input_ids=IDS)["mlm_logits"]
    model.network = torch.compile(model.network, backend="eager")  # type: ignore[assignment]
    model.heads["mlm"] = nn.DataParallel(model.heads["mlm"])
    model.save(tmp_path)
    assert torch.equal(peirce.load(tmp_path).eval()(input_ids=IDS)["mlm_logits"], expected)


@pytest.mark.report(
    "https://github.com/pytorch/pytorch/issues/69353",
    "attention that is pruned fails, since its weights are used without the module that prunes them",
    "a save of a pruned, parametrized or cut part is refused before anything is replaced, with the names that differ",
)
@pytest.mark.parametrize("change", ["pruned", "normed", "longer", "on meta"])
def test_weights_that_could_not_be_loaded_are_not_saved(change: str, tmp_path: Path) -> None:
    small().save(tmp_path)
    before = (tmp_path / "weights.safetensors").read_bytes()
    model = small()
    if change == "pruned":
        prune.l1_unstructured(projections(model)[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    elif change == "normed":
        nn.utils.parametrizations.weight_norm(projections(model)[0])
    elif change == "longer":
        embedding = next(each for each in model.modules() if isinstance(each, nn.Embedding))
        embedding.weight = nn.Parameter(torch.ones(len(embedding.weight) + 1, embedding.embedding_dim))
    else:
        model.to("meta")
    with pytest.raises(ModelFileError, match=r"not those that its spec makes.*: (missing|misshapen|without)"):
        model.save(tmp_path)
    assert (tmp_path / "weights.safetensors").read_bytes() == before


@pytest.mark.report(
    "https://github.com/safetensors/safetensors/issues/98",
    "a model with tied weights cannot be saved: `Some tensors share memory`",
    "each tensor is written with its values, also where a user ties two or lets them view one storage",
)
def test_tensors_that_share_memory_are_saved(tmp_path: Path) -> None:
    model = small()
    first, second = [each for each in projections(model) if each.weight.shape == (24, 24)][:2]
    first.weight = second.weight
    model.save(tmp_path)
    assert torch.equal(peirce.load(tmp_path).eval()(input_ids=IDS)["unary"], model(input_ids=IDS)["unary"])


@pytest.mark.report(
    "https://github.com/pytorch/pytorch/issues/23431",
    "a model in DataParallel cannot be exported, and the error does not say that its `.module` can",
    "one function takes off what torch wraps around a model; of other modules it names the part to pass",
)
def test_what_torch_wraps_around_a_model_is_taken_off() -> None:
    model = small()
    wrapped = torch.compile(nn.DataParallel(model), backend="eager")
    assert unwrap(wrapped) is unwrap(model) is model
    assert isinstance(unwrap(torch.optim.swa_utils.AveragedModel(model)), Model)
    with pytest.raises(InputError, match=r"a Sequential was given; pass its `1`"):
        unwrap(nn.Sequential(nn.Identity(), model))
    with pytest.raises(InputError, match=r"a Linear was given; `peirce.build` and `peirce.load` give one"):
        unwrap(nn.Linear(2, 2))


@pytest.mark.report(
    "https://github.com/huggingface/accelerate/issues/3487",
    "a model that FSDP2 shards still has sharded tensors when it is unwrapped",
    "a sharded model is refused by one message, which says how to gather it",
)
def test_a_sharded_model_is_refused_with_the_way_to_gather_it(tmp_path: Path) -> None:
    from torch import distributed
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    try:
        model = fully_shard(small(), mesh=init_device_mesh("cpu", (1,)))
        for use in (unwrap, lambda model: model.save(tmp_path)):
            with pytest.raises(
                InputError, match=r"sharded over processes \(DTensor\); gather it first: in every"
            ):
                use(model)
        state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    finally:
        distributed.destroy_process_group()
    whole = peirce.build(model.spec)
    whole.load_state_dict(state)
    whole.save(tmp_path)
    assert peirce.load(tmp_path)


@pytest.mark.report(
    "https://github.com/pytorch/pytorch/issues/78109",
    "a hook on the output projection of attention is never called, since its weight is used without it",
    "a projection with a hook, or a parametrized one, is called as a module; all others stay in one product",
)
@pytest.mark.parametrize("spec", [FOLNET, TRANSFORMER], ids=lambda spec: spec.name)
def test_hooks_of_projections_fire(spec: peirce.Spec) -> None:
    model, fired = small(spec), set[int]()
    plain = model(input_ids=IDS)
    handles = [
        each.register_forward_hook(lambda module, *_: fired.add(id(module))) for each in projections(model)
    ]
    hooked = model(input_ids=IDS)
    assert fired == set(map(id, projections(model)))
    assert all(torch.allclose(plain[name], value, atol=1e-5) for name, value in hooked.items())
    for handle in handles:
        handle.remove()
    assert all(torch.equal(plain[name], value) for name, value in model(input_ids=IDS).items())
    prune.random_unstructured(projections(model)[0], "weight", 0.9)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        projections(model)[0].weight_orig.mul_(3)  # type: ignore[operator, union-attr]
    assert not torch.equal(plain["unary"], model(input_ids=IDS)["unary"])


@pytest.mark.report(
    "https://github.com/pytorch/pytorch/issues/183608",
    "a compiled embedding takes negative ids, and returns other rows without a word",
    "a compiled model checks shapes once for each graph, and its graph checks values",
)
def test_a_compiled_model_checks_its_inputs() -> None:
    torch._dynamo.reset()
    model = small()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.equal(compiled(input_ids=IDS)["unary"], model(input_ids=IDS)["unary"])
    for wrong in (IDS - 99, IDS + 99):
        with pytest.raises(
            RuntimeError, match="input 'input_ids' has a value that is not one of the valid 0 to 39"
        ):
            compiled(input_ids=wrong)
    with pytest.raises(Exception, match="input 'input_ids' is int32"):
        compiled(input_ids=IDS.int())


@pytest.mark.report(
    "https://github.com/huggingface/transformers/pull/22437",
    "checkpoints hold tied weights, whose tensors view one storage",
    "a torch file with tied weights, slices and scalars of numpy is read as torch reads it",
)
def test_a_checkpoint_as_people_have_it_is_read(tmp_path: Path) -> None:
    table = torch.rand(30, 4)
    state = {"embedding.weight": table, "head.weight": table, "rows": table[3:9], "turned": table.t()}
    torch.save({"state": state, "accuracy": np.float64(0.5), "epoch": 3}, tmp_path / "pytorch_model.bin")
    found = read_tensors(tmp_path / "pytorch_model.bin", "state")
    assert all(torch.equal(found[name], value) for name, value in state.items())


@pytest.mark.report(
    "https://github.com/deepseek-ai/DeepSeek-V3/issues/1002",
    "norms in float32 beside weights in bfloat16 cannot be loaded: mismatched dtypes",
    "they are cast to the widest one, and a warning names those that were",
)
def test_mixed_dtypes_are_cast_and_named(caplog: pytest.LogCaptureFixture) -> None:
    found = {"norm": torch.ones(2), "weight": torch.ones(2, 2).bfloat16()}
    cast = check_published(found, {"norm": [2], "weight": [2, 2]}, Path("model.bin"))
    assert {value.dtype for value in cast.values()} == {torch.float32}
    assert "cast to float32: weight from bfloat16" in caplog.text


@pytest.mark.report(
    "https://github.com/pytorch/pytorch/security/advisories/GHSA-63cw-57p8-fm3p",
    "a torch file that `weights_only=True` reads allocates and corrupts memory by what its pickle claims",
    "the pickle is followed and never unpickled; what it claims is held against the file before anything is made",
)
def test_a_small_file_costs_little_memory(tmp_path: Path) -> None:
    calls = b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R" * 3
    with zipfile.ZipFile(tmp_path / "x.pth", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02(" + calls + b"l.")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnreadableError, match=r"names builtins\.bytearray, which is neither"):
        read_tensors(tmp_path / "x.pth")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@contextmanager
def plugin(folder: Path, name: str, text: str) -> Iterator[dict[str, str]]:
    """An environment in which a distribution with one plug-in and one command, of one module, is installed."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / f"{name}_module.py").write_text(text)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[peirce.plugins]\nmain = {name}_module\n")
    yield {**os.environ, "PYTHONPATH": str(folder)}


def run(environment: dict[str, str], folder: Path, *arguments: str) -> Any:
    command = [sys.executable, "-m", "peirce", *arguments, "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


@pytest.mark.report(
    "https://github.com/PyO3/pyo3/issues/3918",
    "a panic of a library in Rust is no Exception, and passes by `except Exception`",
    "whatever a plug-in raises when it is imported is its own failure: it is named, and the command goes on",
)
def test_a_plugin_that_panics_costs_only_itself(tmp_path: Path) -> None:
    panic = "class PanicException(BaseException): pass\nraise PanicException('index out of bounds')\n"
    with plugin(tmp_path / "site", "panics", panic) as environment:
        done = run(environment, tmp_path, "spec", "list")
    assert json.loads(done.stdout)["schema"] == "peirce.spec.list/1"
    assert "plug-in panics:main was not loaded: PanicException: index out of bounds" in done.stderr


@pytest.mark.report(
    "https://github.com/conan-io/conan/issues/15671",
    "what recipes print stands in the midst of the JSON of a command",
    "with `--json` standard output holds the document alone, whatever plug-ins and their processes print",
)
def test_what_a_plugin_prints_stays_out_of_json(tmp_path: Path) -> None:
    prints = (
        "import os\nprint('from Python')\nos.write(1, b'from a library')\nos.system('echo from a process')\n"
    )
    with plugin(tmp_path / "site", "prints", prints) as environment:
        done = run(environment, tmp_path, "spec", "list")
    assert json.loads(done.stdout)["schema"] == "peirce.spec.list/1"
    assert all(f"from {what}" in done.stderr for what in ("Python", "a library", "a process"))


@pytest.mark.report(
    "https://github.com/quiqua/pytest-dotenv/issues/13",
    "two plug-ins of one name are installed, and only one of them can be used",
    "the one whose module Python does not import is quarantined with its cause, and saved models name the other",
)
def test_two_distributions_of_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tmp_path / "one_strange_spec.toml"
    spec.touch()
    hook = f"""
import peirce
from pathlib import Path
@peirce.hookimpl
def register_specs(): return [Path({str(spec)!r})]
"""
    for name in ("strange_b", "strange_a"):
        with plugin(tmp_path / name, name, ""):
            (tmp_path / name / "strange_core.py").write_text(hook)
            entry = tmp_path / name / f"{name}-1.0.dist-info" / "entry_points.txt"
            entry.write_text("[peirce.plugins]\nmain = strange_core\n")
            monkeypatch.syspath_prepend(tmp_path / name)
    registry = Registry.discover(kinds=["specs"], strict=False)
    assert registry.entry("specs", "one_strange_spec").distribution == "strange-a"
    (broken,) = registry.quarantined
    assert (broken.plugin, "which is not of strange-b 1.0" in broken.cause) == ("strange-b:main", True)


@pytest.mark.report(
    "https://github.com/rspamd/rspamd/issues/1996",
    "settings that cannot be read are passed over without a word, and the service starts with its defaults",
    "a registry.toml that cannot be read, or is of a newer format, ends the command: it may switch plug-ins off",
)
@pytest.mark.parametrize("content", [b"format = 2\n", b"\xff\xfeformat = 1\n"])
def test_a_registry_file_that_cannot_be_used_is_an_error(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "registry.toml").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEIRCE_REGISTRY", raising=False)
    with pytest.raises(RegistryError, match=r"format is 2, and this version|registry\.toml cannot be read"):
        find_registry_file()


@pytest.mark.report(
    "https://github.com/Cibiv/IQ-TREE/issues/90",
    "a checkpoint that is cut while it is written takes the last good one along",
    "a save on a full disk says so in one sentence, and the model that stood there is whole",
)
def test_a_full_disk_leaves_the_old_model(tmp_path: Path) -> None:
    small().save(tmp_path / "m", assets={"words.txt": b"old"})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for most in (0, 10, 5_000, 20_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(PeirceError) as raised:
                small().save(tmp_path / "m", assets={"words.txt": b"new" * 9_000})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert isinstance(raised.value, WriteError), raised.value
        assert "File too large; what was there is unchanged" in str(raised.value)
        assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    signal.signal(signal.SIGXFSZ, handler)
    assert peirce.load(tmp_path / "m")
