"""Engines: parsed and built by TensorRT, without a GPU; their headers; what is refused, by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import evolve
from command_line import exit_code
from every_part import SEARCHES, SPECS

from peirce import Session
from peirce.compose import build, load
from peirce.errors import ExportError, InputError, ModelFileError
from peirce.registry import Registry
from peirce_export import export
from peirce_export.tensorrt import backends
from peirce_export.tensorrt.building import TensorRTOptions
from peirce_export.tensorrt.exporter import TensorRTExporter
from peirce_export.tensorrt.header import Header, header_of
from peirce_export.tensorrt.profiles import Range
from peirce_export.tensorrt.refusals import NotTaken
from peirce_export.tensorrt.verifying import EngineGraph
from peirce_testing import Conformance

RTX = pytest.mark.skipif(
    not backends.is_installed("rtx"), reason="TensorRT for RTX is not installed; `tox -e tensorrt`"
)
SIZES = ("batch=1:2:4", "length=1:16:32")


def exported(name: str, path: Path, registry: Registry, **options: object) -> tuple[str, ...]:
    known = {"compute_capability": "8.9", "profile": SIZES} | options
    return (
        TensorRTExporter(TensorRTOptions(**known)).export(build(SPECS[name], registry=registry), path).notes
    )


@pytest.mark.skipif(backends.is_installed("rtx"), reason="TensorRT for RTX is installed")
def test_without_tensorrt_it_says_what_to_install(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=re.escape("pip install 'peirce[tensorrt-rtx]'")):
        exported("bert-base", tmp_path / "model.engine", registry, backend="rtx")
    assert not list(tmp_path.iterdir())
    suite = Conformance(registry=registry, tensorrt=True)
    check, case = next(each for each in suite.cases() if each[0].name == "tensorrt")
    ended = suite.outcome(check, case)
    assert ended.outcome == "not run"
    assert "pip install 'peirce[tensorrt-rtx]'" in ended.message


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("model.onnx", {}, "what exporter 'tensorrt' writes must end in .engine"),
        ("taken", {}, "taken is a directory or a device; name a file"),
        ("absent/model.engine", {}, "absent does not exist; create it"),
        ("model.engine", {"opset": 5}, "'opset' must be in (17, 18"),
        ("model.engine", {"seed": -1}, "'seed' must be >= 0: -1"),
        ("model.engine", {"precision": "int4"}, "float16"),
        ("model.engine", {"workspace": 0}, "workspace"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_work(
    name: str, options: dict[str, object], said: str, registry: Registry, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(ExportError, match=re.escape(said)):
        export(
            build(SPECS["bert-base"], registry=registry),
            path=tmp_path / name,
            to="tensorrt",
            registry=registry,
            **options,
        )


def test_numbers_are_compute_capabilities_as_well() -> None:
    assert TensorRTOptions(compute_capability=8.9).compute_capability == ("8.9",)
    assert TensorRTOptions(compute_capability=["SM86", 12.0]).compute_capability == ("SM86", "12.0")


@RTX
@pytest.mark.parametrize("name", [name for name in SPECS if name not in (*SEARCHES, "ultra")])
def test_every_part_parses_and_builds(name: str, registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "model.engine"
    symbols = build(SPECS[name], registry=registry).signature.symbols
    sizes = [text for text in SIZES if text.partition("=")[0] in symbols]
    notes = exported(name, path, registry, profile=sizes)
    assert re.search(r"model.engine: [0-9,]+ MB, [1-9]\d* layers, built in .* for 8.9; profiles", notes[-1])
    assert Header.read(path).size == path.stat().st_size > 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.engine", "model.engine.json"]


@RTX
def test_messages_are_refused_since_tensorrt_scatters_no_sums(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(NotTaken, match=r"ScatterElements \(reduction=add, axis=0\) in entities\.0"):
        exported("ultra", tmp_path / "model.engine", registry, profile=())
    assert not list(tmp_path.iterdir())


@RTX
@pytest.mark.parametrize("name", ["edge-transformer", "triangle", "rat-updated"])
def test_a_trained_model_of_relations_parses_and_builds(name: str, tmp_path: Path) -> None:
    made = ["--algebra", "offpath:2", "--problems", 40]
    assert exit_code("relations", "generate", "-o", tmp_path / "train.jsonl", *made) == 0
    task = ["--task", "relations", "--set", f"task.data={tmp_path}", "--set", "train.steps=2"]
    task += ["--set", f"task.test={tmp_path / 'train.jsonl'}"]
    small = [word for size in ("layers=1", "binary=8") for word in ("--set", f"model.dims.{size}")]
    assert exit_code("train", name, *task, *small, "-o", tmp_path / "model") == 0
    path, known = tmp_path / "model.engine", {"compute_capability": "8.9", "profile": SIZES}
    TensorRTExporter(TensorRTOptions(**known)).export(load(tmp_path / "model"), path)
    assert Header.read(path).size == path.stat().st_size > 0


@RTX
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision(precision: str, registry: Registry, tmp_path: Path) -> None:
    exported("folnet-base", tmp_path / "model.engine", registry, precision=precision)
    assert Header.read(tmp_path / "model.engine").metadata.precision == precision


@RTX
def test_a_generator_has_two_engines(registry: Registry, tmp_path: Path) -> None:
    exported("causal", tmp_path / "model.engine", registry, generate=True, profile=(*SIZES, "past=1:8:31"))
    (step,) = Header.read(tmp_path / "model.step.engine").profiles
    assert step == {"batch": Range(1, 2, 4), "past": Range(1, 8, 31)}


@RTX
def test_several_capabilities_and_the_onnx_file_beside(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "model.engine"
    exported("bert-base", path, registry, keep_onnx=True, compute_capability=("SM89", "8.6", "8.9"))
    header = Header.read(path)
    assert header.capabilities == ("8.9", "8.6")
    assert header.weights(path) is None
    header = evolve(header, flags={"strip_plan": True})
    weights = header.weights(path)
    assert weights == tmp_path / "model.onnx"
    weights.write_bytes(b"others")
    with pytest.raises(ModelFileError, match=r"the ONNX file model\.onnx that has them is another one"):
        header.weights(path)
    weights.unlink()
    with pytest.raises(ModelFileError, match=r"model\.onnx that has them is not beside it"):
        header.weights(path)


@RTX
def test_what_tensorrt_does_not_take_is_told_by_its_part(tmp_path: Path) -> None:
    source = tmp_path / "counted.py"
    source.write_text(
        "import peirce, torch\n"
        "from peirce.parts import UnaryPosition\n"
        "class Counted(UnaryPosition):\n"
        "    name = 'counted'\n"
        "    def __init__(self, options, dims):\n"
        "        super().__init__(options, dims)\n"
        "        self.weight = torch.nn.Parameter(torch.ones(dims.unary))\n"
        "    def unary(self, tokens):\n"
        "        ids = tokens.inputs['input_ids'] % 8\n"
        "        ones = torch.ones(ids.shape, dtype=self.weight.dtype)\n"
        "        seen = ones.new_zeros(ids.shape[0], 8).scatter_add(1, ids, ones)\n"
        "        return seen.gather(1, ids).unsqueeze(2) * self.weight\n"
        "@peirce.hookimpl\n"
        "def register_positions():\n"
        "    return [Counted]\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        registry = Registry.discover(extra_plugins=["counted"])
        model = build(
            SPECS["bert-base"].replace({"model.positions": [{"use": "counted"}]}), registry=registry
        )
        with pytest.raises(NotTaken) as caught:
            TensorRTExporter(TensorRTOptions(compute_capability="8.9", profile=SIZES)).export(
                model, tmp_path / "model.engine"
            )
    (refusal, *_) = caught.value.refusals
    assert (refusal.part, refusal.operator, refusal.node) == (
        "positions.counted", "ScatterElements", "positions.counted/scatter_add",
    )  # fmt: skip
    assert "reduction=add" in refusal.attributes
    assert "positions.counted: ScatterElements (" in str(caught.value)
    assert [each.name for each in tmp_path.glob("*model*")] == []


@RTX
def test_an_engine_is_refused_where_it_cannot_run(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "model.engine"
    exported("bert-base", path, registry)
    if not backends.has_gpu():
        with pytest.raises(
            InputError, match=r"runs on an NVIDIA GPU \(compute capability 8.9\), and CUDA sees none"
        ):
            Session(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelFileError, match=r"is not the engine that model\.engine\.json describes"):
        Session(path)
    with pytest.raises(ModelFileError, match=r"is not the engine that model\.engine\.json describes"):
        EngineGraph(path)
    path.write_bytes(whole)
    header_of(path).unlink()
    with pytest.raises(ModelFileError, match=r"has no model.engine.json beside it"):
        Session(path)


@RTX
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compute_capability": "9.0"}, "does not build for compute capability 9.0, only for 7.5, 8.0"),
        ({"compute_capability": "ada"}, "does not build for compute capability ada"),
        ({"compute_capability": "7.5"}, "7.5 (Turing) multiplies in float16 alone; add --precision float16"),
        ({"version_compatible": True}, "without the lean runtime that version_compatible needs"),
        ({"timing_cache": "absent/cache"}, "folder absent does not exist"),
    ],
)
def test_what_cannot_be_built_is_refused_before_any_work(
    options: dict[str, object], said: str, registry: Registry, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=re.escape(said)):
        exported("bert-base", tmp_path / "model.engine", registry, backend="rtx", **options)


@RTX
@pytest.mark.skipif(backends.has_gpu(), reason="there is a GPU")
@pytest.mark.parametrize("option", ["refit", "strip_plan"])
def test_weights_are_exchanged_where_there_is_a_gpu(option: str, registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="on a machine with a GPU alone"):
        exported("bert-base", tmp_path / "model.engine", registry, **{option: True})
