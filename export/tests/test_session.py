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


def test_what_is_asked_and_given(session: Session, hand: Any) -> None:
    assert (session.signature, session.providers) == (hand.signature, (CPU,))
    assert session.dtype("input_ids") == np.int64
    feeds = _feeds()
    whole = session.run(feeds)
    # Optional inputs take their defaults, lists are taken as arrays, and outputs can be chosen.
    for name, array in session.run(
        {name: feeds[name].tolist() for name in ("input_ids", "logical_ids")}
    ).items():
        np.testing.assert_array_equal(whole[name], array)
    assert list(session.run(feeds, ["pooled", "unary"])) == ["pooled", "unary"]
    with pytest.raises(InputError, match=r"unknown output 'poled'. Did you mean 'pooled'"):
        session.run(feeds, ["poled"])


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
        ({"input_ids": np.full((2, 3), 11)}, "input 'input_ids' contains 11, but valid values are 0 to 10"),
        ({"input_ids": np.full((2, 3), -1)}, "input 'input_ids' contains -1"),
        (
            {"input_ids": np.zeros((0, 3), np.int64)},
            r"input 'input_ids' has shape \[0, 3\], but dim 0 \(batch\) must be at least 1",
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"providers": ["CPUExecutorProvider"]},
            "unknown provider 'CPUExecutorProvider'. Did you mean 'CPUExecutionProvider'",
        ),
        ({"providers": []}, "no provider is named"),
        ({"threads": 0}, "threads is 0; it must be an integer from 1 to 1024"),
        ({"threads": "2"}, "must be an integer from 1 to 1024"),
        (
            {"providers": [CPU], "provider_options": {CUDA: {"device_id": 0}}},
            f"unknown provider to give options '{CUDA}'",
        ),
        ({"provider_options": [{}]}, "provider_options is .*give a dict of options by provider"),
    ],
)
def test_what_no_runtime_takes_is_refused(hand_file: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Session(hand_file, **given)


def test_provider_options(hand_file: Path, session: Session) -> None:
    options = {CPU: {"arena_extend_strategy": "kSameAsRequested"}}
    with Session(hand_file, [CPU], provider_options=options) as tuned:
        np.testing.assert_array_equal(tuned.run(_feeds())["unary"], session.run(_feeds())["unary"])


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
    with pytest.raises(ModelFileError, match="there is no file"):
        Session(tmp_path / "none.onnx")
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(hand_file.read_bytes()[:2000])
    with pytest.raises(ModelFileError, match=r"damaged or incomplete"):
        Session(cut)
    proto = onnx.load(str(hand_file))
    proto.graph.input[0].name = "ids"
    cut.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelFileError, match="the file lacks input_ids and has ids beside"):
        Session(cut, digests=False)


def test_bfloat16_outputs_come_as_float32(tmp_path: Path) -> None:
    dims = ("batch", "length")
    ids, real = (
        TensorSpec(name=name, dtype=kind, dims=dims) for name, kind in (("x", "int64"), ("y", "float"))
    )
    metadata = Metadata(
        signature=Signature([ids], [real]), spec="", provenance={}, precision="bfloat16", opset_requested=20,
        opset_actual=20,
    )  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)],
        "cast",
        [helper.make_tensor_value_info("x", TensorProto.INT64, dims)],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, dims)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    helper.set_model_props(model, metadata.to_properties())
    onnx.save(model, str(tmp_path / "cast.onnx"))
    values = np.random.default_rng(0).integers(0, 10**6, (3, 5))
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
        ({**_feeds(), "input_ids": [[1], [2, 3]]}, None, "input 'input_ids' is not an array"),
        (_feeds(), "unary", r"give a list of names, \['unary'\]"),
        (_feeds(), [None], "unknown output None"),
    ):
        with pytest.raises(InputError, match=message):
            session.run(feeds, outputs)  # type: ignore[arg-type]
