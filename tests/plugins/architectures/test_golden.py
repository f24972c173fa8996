"""FOLNet against numbers that its published code gave on random weights."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import peirce
import pytest
import torch
from peirce.registry import Registry
from peirce.spec import Spec
from safetensors.torch import load_file

CASES = ("ja", "ja-ape", "jm.ap", "jmc.atp", "jmc.atp-ape-only", "jmc.atp-diag-scl", "jmc.atp-reglu")
TOLERANCE = 1e-5
"""Relative to the largest entry of an output, in float32."""

OUTPUTS = ("unary", "binary", "pooled", "mlm_logits", "nsp_logits")

TOP = {
    "folnet.encoder.word_embd.weight": "network.input.embedding.weight",
    "folnet.encoder.type_embd.weight": "network.input.token_type.weight",
    "folnet.encoder.diag.": "network.diagonal_in.",
    "folnet.diag.": "network.diagonal_out.",
    "folnet.dense.": "network.pooler.dense.",
    "cls.heads.predictions.transform.dense.": "heads.mlm.dense.",
    "cls.heads.predictions.bias": "heads.mlm.bias",
    "cls.heads.seq_relationship.": "heads.nsp.dense.",
}
PAIRED = {"mu": ("kernel", "premise"), "assoc": ("kernel", "premise"), "trans": ("kernel", "premise")}
APART = {"join": ("kernel", "premise"), "cjoin": ("kernel", "premise"), "prod": ("kernel", "premise")}


def spec_of(config: dict) -> Spec:
    """The published configuration as a spec."""
    operators = [*config["mixer_ops"]["1"], *config["mixer_ops"]["2"]]
    positions = []
    if config["absolute_position"]:
        positions.append('[[model.positions]]\nuse = "absolute"')
    if config["relative_position"]:
        positions.append(
            f'[[model.positions]]\nuse = "distance"\ncls = true\nclip = {config["max_position_offset"]}'
        )
    layer = "\n".join(f'[[model.operators.layer]]\nuse = "{name}"' for name in operators)
    return Spec.from_toml(
        f"""
format = 1
[model]
name = "golden"
architecture = "folnet"
[model.dims]
layers = {config["num_layers"]}
unary = {config["predicate_dims"][1]}
binary = {config["predicate_dims"][2]}
heads = {config["num_heads"]}
head_size = {config["head_size"]}
feedforward_unary = {config["intermediate_dims"][1]}
feedforward_binary = {config["intermediate_dims"][2]}
[model.options]
diag_link = {str(config["diag_link"]).lower()}
[model.input]
vocabulary = {config["vocab_size"]}
max_length = 512
[model.scope]
mask_padding = false
[model.operators.options.bool]
mlp = "{"reglu" if config["boolean_type"] == "reglu" else "gelu"}"
{layer}
{chr(10).join(positions)}
[[model.heads]]
use = "mlm"
[[model.heads]]
use = "pair"
as = "nsp"
"""
    )


def renamed(published: dict[str, torch.Tensor], config: dict) -> dict[str, torch.Tensor]:
    """The published weights under the names of the model's state dict."""
    branches = {1: config["mixer_ops"]["1"], 2: config["mixer_ops"]["2"]}
    order = [(1, k) for k in range(len(branches[1]))] + [(2, k) for k in range(len(branches[2]))]
    state: dict[str, torch.Tensor] = {}
    for name, tensor in published.items():
        found = re.match(
            r"folnet\.reasoner\.layers\.(\d+)\.deducers\.(\d)\.operators\.(\d)\.(\d+)\.(.*)", name
        )
        if found:
            layer, stage, branch, k = (int(g) for g in found.groups()[:4])
            rest = found.group(5)
            prefix = f"network.layers.{layer}.operators"
            if stage == 1:
                side = "unary" if branch == 1 else "binary"
                rest = rest.replace("clause_in.gating", "gate").replace("clause_in.direct", "hidden")
                rest = rest.replace("clause_in", "hidden").replace("clause_out", "output")
                rest = rest.replace("clause_skip", "converse")
                state[f"{prefix}.{len(order)}.bool.{side}.{rest}"] = tensor
                continue
            operator = branches[branch][k]
            place = f"{prefix}.{order.index((branch, k))}.{operator}"
            state.update(_operator(place, operator, rest, tensor, config))
            continue
        for old, new in TOP.items():
            if name.startswith(old):
                state[new + name[len(old) :]] = tensor
                break
        else:
            if name == "folnet.encoder.rel_pos_embd.weight":
                state["distance"] = tensor
            elif name == "folnet.encoder.abs_pos_embd.weight":
                state["absolute"] = tensor
            elif name != "cls.heads.predictions.decoder.weight" and not name.startswith("sch."):
                raise AssertionError(f"unexpected tensor {name} {list(tensor.shape)}")
    return state


def _operator(
    place: str, operator: str, rest: str, tensor: torch.Tensor, config: dict
) -> dict[str, torch.Tensor]:
    kind, leaf = rest.rsplit(".", 1)
    if kind == "writer":
        return {f"{place}.output.{leaf}": tensor}
    if kind in ("kernel", "premise", "output"):
        return {f"{place}.{kind}.{leaf}": tensor}
    if operator in PAIRED:
        heads, size = config["num_heads"], config["head_size"]
        widths = {"mu": [heads, size], "assoc": [heads * size] * 2, "trans": [len(tensor) // 2] * 2}[operator]
        kernel, premise = tensor.split(widths)
        return {f"{place}.kernel.{leaf}": kernel, f"{place}.premise.{leaf}": premise}
    readers = {"reader.1": "1", "reader.2": "2"}[kind]
    role = {"join": {"1": "premise", "2": "kernel"}, "prod": {"1": "kernel", "2": "premise"}}[operator][
        readers
    ]
    return {f"{place}.{role}.{leaf}": tensor}


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("case", CASES)
def test_outputs_agree_with_the_published_code(
    case: str, fuse: bool, shared: Path, registry: Registry
) -> None:
    folder = shared / "golden" / "folnet" / case
    config = json.loads((folder / "config.json").read_text())
    golden = np.load(folder / "io.npz")
    model = peirce.build(spec_of(config), fuse=fuse, registry=registry).eval()
    state = renamed(load_file(folder / "weights.safetensors"), config)
    position_names = [name for name in model.state_dict() if name.startswith("network.input.positions.")]
    for kind, name in zip([k for k in ("absolute", "distance") if k in state], position_names, strict=True):
        state[name] = state.pop(kind)
    model.load_state_dict(state)
    ids, types = (torch.from_numpy(golden[n]).long() for n in ("input_ids", "token_type_ids"))
    with torch.no_grad():
        outputs = model(input_ids=ids, token_type_ids=types)
    for name in OUTPUTS:
        if name not in golden:
            assert name == "nsp_logits" or name not in outputs
            continue
        expected = torch.from_numpy(golden[name])
        error = (outputs[name] - expected).abs().max() / expected.abs().max()
        assert error < TOLERANCE, f"{name}: relative error {error:.2e}"
