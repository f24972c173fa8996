"""Networks over graphs: published Edge Transformers, shared layers, and a trained model asked."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import peirce
from peirce.algebra import Predicates, Scope
from peirce.errors import PlanError
from peirce.registry import Registry
from peirce_relations.checkpoints.edge_transformer import import_edge_transformer


@pytest.mark.parametrize("case", ["own-layers", "shared-layers", "flat"])
def test_the_published_states_and_scores(case: str, shared: Path, registry: Registry, tmp_path: Path) -> None:
    folder = shared / "golden" / "edge-transformer" / case
    model = import_edge_transformer(
        folder / "config.json", folder / "weights.safetensors", tmp_path / "m", registry=registry
    )
    given = {name: torch.from_numpy(value) for name, value in np.load(folder / "io.npz").items()}
    real = ~given["padding"]
    pairs = real.unsqueeze(2) & real.unsqueeze(1)
    for fuse in (True, False):
        loaded = peirce.load(tmp_path / "m", registry=registry, fuse=fuse).eval()
        with torch.no_grad():
            found = loaded(edge_ids=given["graphs"], attention_mask=real)
        for ours, theirs in (("binary", "states"), ("relation_logits", "logits")):
            error = (found[ours] - given[theirs])[pairs].abs().max() / given[theirs].abs().max()
            assert error < 1e-5, ours
        assert not found["binary"][~pairs].any()
    assert [spec.name for spec in model.signature.inputs if spec.required] == ["edge_ids"]


def test_what_an_import_cannot_read_is_told(shared: Path, tmp_path: Path, invoke: Any) -> None:
    folder = shared / "golden" / "edge-transformer" / "flat"
    settings = json.loads((folder / "config.json").read_text())
    given = [str(tmp_path / "config.json"), str(folder / "weights.safetensors"), "-o", str(tmp_path / "m")]
    for changes, said in (
        ({"dim": 15}, "divide"),
        ({"flat_attention": False}, "missing"),
        ({"dim": "x"}, "'dim'"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**settings, **changes}))
        result = invoke("import", "edge-transformer", *given)
        assert result.exit_code
        assert said in result.output
    assert not (tmp_path / "m").exists()


def test_shared_layers_take_any_number_of_rounds() -> None:
    spec = peirce.load_spec("edge-transformer", {"model.dims.binary": 8, "model.dims.head_size": 2})
    model = peirce.build(spec, seed=0).eval()
    longer = peirce.build(spec.replace({"model.dims.layers": 9}), seed=1).eval()
    longer.load_state_dict(model.state_dict())
    ids = torch.randint(21, (2, 5, 5))
    state = Predicates(torch.zeros(2, 5, 1), model(edge_ids=ids)["binary"])
    for _ in range(5):  # four rounds and five more
        state, _ = model.get_submodule("network.layers.0")(state, Scope(), ())
    torch.testing.assert_close(longer(edge_ids=ids)["binary"], state.binary)


def test_rounds_are_left_out_in_training_alone() -> None:
    changes = {"model.dims.binary": 8, "model.dims.unary": 8, "model.dims.layers": 3, "model.options.vary": 2}
    model = peirce.build(peirce.load_spec("relational-rounds", changes), seed=0)
    calls: list[int] = []
    model.get_submodule("network.layers.0").register_forward_hook(lambda *_: calls.append(1))
    ids, counts = torch.randint(21, (1, 3, 3)), set()
    for training in (True, False):
        model.train(training)
        for _ in range(20):
            calls.clear()
            model(edge_ids=ids)
            counts.add((training, len(calls)))
    assert counts == {(True, 1), (True, 2), (True, 3), (False, 3)}


def test_a_pair_without_an_edge_is_blank_until_it_is_composed() -> None:
    model = peirce.build(peirce.load_spec("relational-compose", {"model.dims.layers": 1}), seed=0).eval()
    ids = torch.full((1, 4, 4), 20)
    ids[0, 0, 1], ids[0, 1, 2] = 3, 7
    atoms = model(edge_ids=ids)["binary"][0]
    assert [(x, y) for x, y in np.ndindex(4, 4) if atoms[x, y].any()] == [
        (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1),
    ]  # fmt: skip


def test_an_edge_that_is_masked_is_an_unknown_one_and_the_converse_is_seen() -> None:
    spec = peirce.load_spec("relational-trans", {"model.dims.binary": 8, "model.dims.layers": 1})
    model = peirce.build(spec, seed=0).eval()
    ids, known = torch.randint(20, (1, 4, 4)), torch.rand(1, 4, 4) < 0.5
    masked = model(edge_ids=ids, edge_mask=known)["binary"]
    assert torch.equal(masked, model(edge_ids=torch.where(known, ids, 20))["binary"])
    turned = ids.clone()
    turned[0, 2, 1] = (ids[0, 2, 1] + 1) % 20
    table = model.get_submodule("network.input.positions.0")
    tokens = model.network.input.tokens(
        {"input_ids": torch.zeros(1, 4, dtype=torch.int64), "edge_ids": turned}
    )
    before = model.network.input.tokens({"input_ids": torch.zeros(1, 4, dtype=torch.int64), "edge_ids": ids})
    differs = (table.binary(tokens) != table.binary(before)).any(3)[0]
    assert differs.nonzero().tolist() == [[1, 2], [2, 1]]


def test_a_trained_model_is_exported_and_asked(tmp_path: Path, invoke: Any) -> None:
    generated = ["relations", "generate", "--algebra", "rcc8", "--problems", "96"]
    for name in ("train", "test_k3_b1"):
        out = str(tmp_path / f"{name}.jsonl")
        assert invoke(*generated, "-o", out, "--seed", str(len(name))).exit_code == 0
    sizes = {"binary": 8, "head_size": 2, "layers": 2}
    small = [word for key, size in sizes.items() for word in ("--set", f"model.dims.{key}={size}")]
    model, told = tmp_path / "model", ["--set", f"task.data={tmp_path}", "--set", "train.steps=3"]
    trained = ("train", "edge-transformer", "--task", "relations", *told, *small, "-o", str(model))
    assert invoke(*trained).exit_code == 0
    facts = "a NTPP b, b PO c"
    assert "is a spec" in invoke("relate", "edge-transformer", facts, "--pair", "a", "c").output
    assert "peirce export" in invoke("relate", str(model), facts, "--pair", "a", "c").output
    assert invoke("export", str(model), "-o", str(model / "model.onnx")).exit_code == 0
    assert invoke("verify", str(model / "model.onnx")).exit_code == 0
    found = json.loads(invoke("relate", str(model), facts, "--pair", "a", "c", "--json").stdout)
    assert sum(found["probabilities"]) == pytest.approx(1)
    loaded = peirce.load(model).eval()
    names = json.loads((model / "assets" / "relations.json").read_text())["relations"]
    ids = torch.full((1, 3, 3), len(names))
    ids[0, 0, 1], ids[0, 1, 2] = names.index("NTPP"), names.index("PO")
    with torch.no_grad():
        scores = loaded(edge_ids=ids)["relation_logits"][0, 0, 2]
    assert found["scores"][0] == pytest.approx(float(scores.max()), abs=1e-5)
    assert found["relations"][0] == names[int(scores.argmax())]
    graphs, real = torch.randint(len(names) + 1, (3, 6, 6)), torch.arange(6) < torch.tensor([[6], [4], [2]])
    with peirce.Session(model / "model.onnx") as session, torch.no_grad():
        given = session.run({"edge_ids": graphs.numpy(), "attention_mask": real.numpy()})
        wanted = loaded(edge_ids=graphs, attention_mask=real)
    for name, values in given.items():
        np.testing.assert_allclose(values, wanted[name], atol=1e-5, err_msg=name)
    for asked, said in (
        ("a NTP b", "Did you mean 'NTPP'"),
        ("a b", "is not a fact"),
        (", ".join(f"{i} PO {i + 1}" for i in range(128)), "129 nodes, and the limit is 128"),
    ):
        assert said in invoke("relate", str(model), asked, "--pair", "a", "b").output
    assert "unknown node 'd'" in invoke("relate", str(model), facts, "--pair", "a", "d").output
    asked = ("relate", str(model), facts, "--pair", "a", "c", "--page")
    page, runtime = tmp_path / "page.html", tmp_path / "dist"
    runtime.mkdir()
    for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        (runtime / name).write_text(name)
    assert invoke(*asked, str(page), "--runtime", str(runtime)).exit_code == 0
    html = page.read_text()
    held = dict(re.findall(r'<script type="(?:application/json|text/plain)" id="(\w+)">(.*?)</script>', html))
    assert gzip.decompress(b64decode(held["model"])) == (model / "model.onnx").read_bytes()
    assert gzip.decompress(b64decode(held["wasm"])) == b"ort-wasm-simd-threaded.wasm"
    told = json.loads(held["data"])
    assert (told["relations"], told["facts"], told["pair"]) == (names, facts, ["a", "c"])
    assert "attention_mask" in [each["name"] for each in told["inputs"]]
    assert "$" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_relations_of_a_two_branch_are_updated_by_what_deduces() -> None:
    """Its state operators are those of a transformer, which would have no relations for them."""
    dims = {"layers": 1, "unary": 8, "heads": 2}
    layers = [{"layer": [{"use": name} for name in ("assoc", "join", "join")], "state": ["pair_feedforward"]}]
    spec = peirce.Spec(name="two", architecture="two_branch", dims=dims, operators={"layers": layers})
    with pytest.raises(PlanError, match="'pair_feedforward' cannot be used here: it updates relations alone"):
        peirce.build(spec.replace({"model.input.vocabulary": 9}))
