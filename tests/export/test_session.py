"""The session: what it takes, what it refuses by name, and that it loads no torch."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from command_line import exit_code
from onnx import TensorProto, helper
from peirce import Session
from peirce.errors import InputError, ModelFileError
from peirce.parts import Signature, TensorSpec
from peirce_export.metadata import Metadata
from peirce_export.onnx.providers import (
    CPU,
    CUDA,
    TENSORRT,
    TENSORRT_RTX,
    BothRuntimesWarning,
    both_runtimes,
    caches,
)


@pytest.fixture(scope="module")
def session(hand_file: Path) -> Iterator[Session]:
    with Session(hand_file, threads=1) as opened:
        yield opened


def _feeds(batch: int = 2, length: int = 3, levels: int = 2) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "input_ids": random.integers(0, 11, (batch, length)),
        "attention_mask": np.ones((batch, length), bool),
        "token_type_ids": np.zeros((batch, length), np.int64),
        "logical_ids": random.integers(0, 4, (batch, levels, length)),
    }


def test_it_gives_what_torch_gives(session: Session, hand: Any) -> None:
    feeds = _feeds(3, 8, 5)
    found = session.run(feeds)
    with torch.no_grad():
        expected = hand(**{name: torch.from_numpy(array) for name, array in feeds.items()})
    assert list(found) == ["unary", "binary", "pooled"]
    for name, array in found.items():
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, expected[name].numpy(), atol=1e-5)


def test_its_signature_is_the_models(session: Session, hand: Any) -> None:
    assert session.signature == hand.signature
    assert session.providers == (CPU,)
    assert session.dtype("input_ids") == np.int64


def test_optional_inputs_take_their_defaults(session: Session) -> None:
    feeds = _feeds()
    short = {name: feeds[name] for name in ("input_ids", "logical_ids")}
    for name, array in session.run(feeds).items():
        np.testing.assert_array_equal(session.run(short)[name], array)


def test_outputs_can_be_chosen(session: Session) -> None:
    found = session.run(_feeds(), ["pooled", "unary"])
    assert list(found) == ["pooled", "unary"]
    with pytest.raises(InputError, match=r"unknown output 'poled'. Did you mean 'pooled'"):
        session.run(_feeds(), ["poled"])


def test_lists_are_taken_as_arrays(session: Session) -> None:
    found = session.run({"input_ids": [[1, 2]], "logical_ids": [[[0, 1]]]}, ["unary"])
    assert found["unary"].shape == (1, 2, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs_ids": np.zeros((2, 3), np.int64)}, "unknown input 'inputs_ids'. Did you mean 'input_ids'"),
        ({"logical_ids": None}, r"input 'logical_ids' is missing: int64 \[batch, levels, length\]"),
        ({"input_ids": None}, "input 'input_ids' is missing: int64 .batch, length., Token ids"),
        ({"input_ids": np.zeros((2, 3), np.int32)}, r"input 'input_ids' is int32, but the model takes int64"),
        ({"attention_mask": np.ones((2, 3))}, "input 'attention_mask' is float64, but the model takes bool"),
        ({"input_ids": np.zeros(3, np.int64)}, r"input 'input_ids' has shape \[3\].*2 dims"),
        (
            {"attention_mask": np.ones((2, 4), bool)},
            "'attention_mask'.*dim 1 .*must be 3: .*'length' of 'input_ids'",
        ),
        ({"input_ids": np.full((2, 3), 11)}, "input 'input_ids' holds 11, but valid values are 0 to 10"),
        ({"input_ids": np.full((2, 3), -1)}, "input 'input_ids' holds -1"),
        (
            {"input_ids": np.zeros((0, 3), np.int64)},
            r"input 'input_ids' has shape \[0, 3\], but dim 0 \(batch\) is empty",
        ),
    ],
)
def test_it_refuses_by_name(session: Session, change: dict[str, Any], message: str) -> None:
    feeds = {**_feeds(), **change}
    with pytest.raises(InputError, match=message):
        session.run({name: array for name, array in feeds.items() if array is not None})


def test_a_closed_session_says_so(hand_file: Path) -> None:
    with Session(hand_file) as opened:
        opened.run(_feeds())
    with pytest.raises(InputError, match=r"is closed"):
        opened.run(_feeds())


def test_providers(hand_file: Path) -> None:
    assert Session(hand_file, [CPU]).providers == (CPU,)
    with pytest.raises(
        InputError, match=r"unknown provider 'CPUExecutorProvider'. Did you mean 'CPUExecutionProvider'"
    ):
        Session(hand_file, ["CPUExecutorProvider"])
    with pytest.raises(InputError, match=r"no provider is named"):
        Session(hand_file, [])
    with pytest.raises(InputError, match=r"threads is 0"):
        Session(hand_file, threads=0)


def test_provider_options(hand_file: Path, session: Session) -> None:
    with Session(
        hand_file, [CPU], provider_options={CPU: {"arena_extend_strategy": "kSameAsRequested"}}
    ) as tuned:
        np.testing.assert_array_equal(tuned.run(_feeds())["unary"], session.run(_feeds())["unary"])
    wrong: Any
    for wrong, message in (
        ({CUDA: {"device_id": 0}}, f"unknown provider to give options '{CUDA}'"),
        ([{}], "provider_options is .*give a dict of options by provider"),
    ):
        with pytest.raises(InputError, match=message):
            Session(hand_file, [CPU], provider_options=wrong)


def test_engines_are_kept_beside_the_file_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    found = caches((TENSORRT, TENSORRT_RTX, CUDA), file, "0123456789" * 4)
    folder = tmp_path / "model.onnx.engines" / "4567890123456789"
    assert folder.is_dir()
    assert set(found) == {TENSORRT, TENSORRT_RTX}
    assert (
        found[TENSORRT]["trt_engine_cache_path"]
        == found[TENSORRT_RTX]["nv_runtime_cache_path"]
        == str(folder)
    )
    assert caches((CUDA, CPU), file, "0" * 40) == caches((TENSORRT,), file, None) == {}
    (tmp_path / "taken").touch()
    assert caches((TENSORRT,), tmp_path / "taken" / "model.onnx", "0" * 40) == {}


def test_a_plug_in_provider_that_does_not_start_says_why(
    hand_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = "onnxruntime_ep_nv_tensorrt_rtx"
    (tmp_path / f"{package}.py").write_text("def get_library_path():\n    return '/nowhere/librtx.so'\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=rf"{TENSORRT_RTX} of .* does not start: .*/nowhere/librtx.so"):
        Session(hand_file, [TENSORRT_RTX])
    exit_code("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert "librtx.so" in checks[f"provider {TENSORRT_RTX}"]["finding"]
    assert checks[f"provider {TENSORRT_RTX}"]["status"] == "warning"
    assert checks[f"provider {CPU}"]["finding"] == "starts"
    monkeypatch.delitem(sys.modules, package)


def test_outputs_that_stay_on_the_device(session: Session) -> None:
    feeds = _feeds()
    found = session.run_on_device(feeds, ["pooled", "unary"])
    assert list(found) == ["pooled", "unary"]
    for name, expected in session.run(feeds, ["pooled", "unary"]).items():
        value = found[name]
        assert (value.device, value.dtype, value.shape) == ("cpu", expected.dtype, expected.shape)
        np.testing.assert_array_equal(value.numpy(), expected)
    with pytest.raises(InputError, match="input 'input_ids' is float32, but the model takes int64"):
        session.run_on_device({**feeds, "input_ids": found["unary"]})


def test_both_distributions_are_reported(
    hand_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert both_runtimes() is None
    # A distribution is what its metadata on the import path says: one more folder of it installs the second.
    info = tmp_path / "onnxruntime_gpu-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.2.3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(BothRuntimesWarning, match=r"onnxruntime-gpu 1.2.3 are both installed.*pip uninstall"):
        Session(hand_file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Session(hand_file, [CPU])


def test_files_that_cannot_be_run(hand_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"is not a file"):
        Session(tmp_path / "none.onnx")
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(hand_file.read_bytes()[:2000])
    with pytest.raises(ModelFileError, match=r"damaged or incomplete"):
        Session(cut)
    proto = onnx.load(str(hand_file))
    proto.graph.input[0].name, proto.graph.node[0].input[1] = "ids", "ids"
    proto.graph.node[0].input[0] = "tokens.weight"
    renamed = tmp_path / "renamed.onnx"
    onnx.save(proto, str(renamed))
    with pytest.raises(ModelFileError, match=r"has inputs ids,.*its signature says input_ids"):
        Session(renamed, digests=False)
    del proto.metadata_props[:]
    onnx.save(proto, str(renamed))
    with pytest.raises(ModelFileError, match=r"was not exported by Peirce"):
        Session(renamed)


def test_bfloat16_outputs_come_as_float32(tmp_path: Path) -> None:
    spec = {"dtype": "float", "dims": ("batch", "length")}
    signature = Signature([TensorSpec(name="x", **spec)], [TensorSpec(name="y", **spec)])
    metadata = Metadata(
        signature=signature, spec="", provenance={}, precision="bfloat16", opset_requested=20, opset_actual=20
    )
    dims = ["batch", "length"]
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)],
        "cast",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, dims)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    helper.set_model_props(model, metadata.to_properties())
    onnx.save(model, str(tmp_path / "cast.onnx"))
    values = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    found = Session(tmp_path / "cast.onnx", digests=False).run({"x": values})["y"]
    np.testing.assert_array_equal(found, torch.from_numpy(values).bfloat16().float().numpy())


def test_it_runs_where_torch_cannot_be_imported(hand_file: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **_feeds())
    script = textwrap.dedent(
        """
        import sys

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("torch", "peirce_basics"):
                    raise ImportError(f"{name} must not be imported")

        sys.meta_path.insert(0, Refuse())
        import numpy as np
        import peirce

        with peirce.Session(sys.argv[1]) as session, np.load(sys.argv[2]) as feeds:
            assert session.run(dict(feeds))["unary"].shape == (2, 3, 8)
        from peirce.commands.main import main

        main(["run", sys.argv[1], "--inputs", sys.argv[2], "-o", sys.argv[3]])
        """
    )
    arguments = [hand_file, tmp_path / "x.npz", tmp_path / "y.npz"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "unary  float32 [2, 3, 8]" in done.stdout
    with np.load(tmp_path / "y.npz") as found:
        assert found["binary"].shape == (2, 3, 3, 3)


def test_it_refuses_what_is_no_mapping_of_arrays(session: Session) -> None:
    for feeds, outputs, message in (
        (None, None, "inputs are a NoneType"),
        ([1], None, "inputs are a list"),
        ({3: [[1]]}, None, "unknown input 3"),
        ({**_feeds(), "input_ids": [[1], [2, 3]]}, None, "input 'input_ids' is no array"),
        (_feeds(), "unary", r"give a list of names, \['unary'\]"),
        (_feeds(), [None], "unknown output None"),
    ):
        with pytest.raises(InputError, match=message):
            session.run(feeds, outputs)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [0, -1, "2", 1.5, 10**12])
def test_it_refuses_threads_that_cannot_be(hand_file: Path, threads: Any) -> None:
    with pytest.raises(InputError, match="must be an integer from 1 to 1024"):
        Session(hand_file, threads=threads)
