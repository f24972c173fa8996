"""Bytes that a pass moves and operations that its products take, counted without a card and without computing.

Tensors are on `meta`, where torch knows shapes alone and Peirce goes the ways of a GPU. Each operation counts the bytes
of the tensors that it reads and writes; a view counts nothing, an expanded tensor what it has in memory. Passes are in
inference, or a step: forward and gradients, without an optimizer. There is no padding. Of searches, which need values,
the link predictor counts. `floor` is what must be moved even if each operator were one kernel: its inputs, parameters
and outputs once. BERT is transformers', with as many layers, channels and heads. Rows go to results/traffic.json; the
operators of folnet-base stand alone in a layer, beside its feed-forward networks.

python benchmarks/traffic.py [SPEC ...] [--lengths N N] [--batch N] [--dtype NAME] [--lines N]
"""

from __future__ import annotations

import argparse
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from exports import sentence, sized
from growth import LETTERS
from measuring import record
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from transformers import BertConfig, BertModel

import peirce
from peirce.networks import Mixing, Recurrence
from peirce.parts import Head, RecurrentOperator, StateOperator
from peirce.registry import ready_specs
from peirce_export.cases import Case, inputs

OPERATORS = (StateOperator, RecurrentOperator, Mixing, Recurrence, Head)
VIEWS = {
    *(
        "view",
        "permute",
        "transpose",
        "expand",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
        "as_strided",
        "detach",
    ),
    *(
        "alias",
        "t",
        "_unsafe_view",
        "unbind",
        "split",
        "split_with_sizes",
        "chunk",
        "narrow",
        "diagonal",
        "unfold",
    ),
    *("lift_fresh", "empty", "empty_like", "new_empty", "empty_strided", "_reshape_alias"),
}


KERNELS = " with kernels"
"""Behind the name of what is counted with kernels in Triton's language, each its inputs and outputs once."""


def count_kernels() -> None:
    """Register how many operations the kernels take, where triton is installed."""
    if find_spec("triton") is None:
        return
    import peirce_folnet.kernels.pairs  # they register operators
    import peirce_folnet.kernels.trans  # noqa: F401

    def trans(k: Tensor, v: Tensor, *others: Any, out_val: Any, factor: int = 2) -> int:
        return factor * k.numel() * v.shape[-1]

    def pairs(u: Tensor, w1: Tensor, *others: Any, out_val: Any, factor: int = 2) -> int:
        hidden, width = w1.shape
        return factor * u.numel() // u.shape[-1] * (hidden * width * 3 // 2 + u.shape[-1] ** 2)

    ours = torch.ops.peirce
    flop_registry[ours.trans], flop_registry[ours.pairs] = trans, pairs
    flop_registry[ours.trans_backward] = partial(trans, factor=4)
    flop_registry[ours.pairs_backward] = lambda dw, *rest, out_val: pairs(*rest, out_val=out_val, factor=4)


class Traffic(TorchDispatchMode):
    """Counts the operations of a pass, and its bytes by operation and, if asked, by the line of Peirce."""

    def __init__(self, lines: bool = False) -> None:
        super().__init__()
        self.lines = lines
        self.bytes, self.passes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self.operations = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name not in VIEWS:
            key = name, self._line() if self.lines else ""
            self.bytes[key] += size((args, kwargs)) + size(found)
            self.passes[key] += 1
        if function.overloadpacket in flop_registry:
            self.operations += flop_registry[function.overloadpacket](*args, **(kwargs or {}), out_val=found)
        return found

    def _line(self) -> str:
        ours = [frame for frame in traceback.extract_stack(limit=40) if "/peirce" in frame.filename]
        return f"{'/'.join(ours[-1].filename.split('/')[-2:])}:{ours[-1].lineno}" if ours else "gradients"


def size(tree: Any) -> int:
    """Bytes of the tensors of a tree, of each no more than it has in memory."""
    tensors = (each for each in tree_leaves(tree) if isinstance(each, Tensor))
    return sum(min(each.nbytes, each.untyped_storage().nbytes()) for each in tensors)


@contextmanager
def floors(model: nn.Module) -> Iterator[list[int]]:
    """Collect the bytes of each operator's inputs, parameters and outputs."""
    found: list[int] = []

    def add(module: nn.Module, args: Any, kwargs: Any, outputs: Any) -> None:
        found.append(size((args, kwargs, outputs)) + size(list(module.parameters())))

    handles = [
        module.register_forward_hook(add, with_kwargs=True)
        for module in model.modules()
        if isinstance(module, OPERATORS)
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def counted(run: Callable[[], Any], step: bool, lines: bool = False) -> Traffic:
    """The traffic of a pass, or of a pass and its gradients."""
    with torch.set_grad_enabled(step), Traffic(lines) as traffic:
        outputs = [each for each in tree_leaves(run()) if isinstance(each, Tensor) and each.requires_grad]
        if step:
            torch.autograd.backward([each.sum() for each in outputs])
    return traffic


def rows_of(
    name: str, model: nn.Module, feeds: Mapping[str, Tensor], asked: argparse.Namespace, length: int
) -> Iterator[dict[str, Any]]:
    """A row for the pass in inference and one for a step."""
    for what in ("forward", "step"):
        model.train(what == "step")
        with (
            torch.no_grad(),
            floors(model) as floor,
        ):  # apart: an operator with a hook is not computed by a kernel
            model(**feeds)
        traffic = counted(lambda: model(**feeds), what == "step", bool(asked.lines))
        if asked.lines:
            print(f"\n{name} {what}, {length} tokens")
            for (operation, line), moved in traffic.bytes.most_common(asked.lines):
                print(
                    f"  {moved / 2**20:10,.0f} MiB  {traffic.passes[operation, line]:4d}x {operation:28s} {line}"
                )
        yield {
            "model": name,
            "what": what,
            "batch": asked.batch,
            "length": length,
            "dtype": asked.dtype,
            "GB": sum(traffic.bytes.values()) / 1e9,
            "floor GB": sum(floor) / 1e9 * (3 if what == "step" else 1),
            "passes": sum(traffic.passes.values()),
            "GFLOP": traffic.operations / 1e9,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("specs", nargs="*", metavar="SPEC", help="ready specs; by default all, and operators")
    parser.add_argument("--lengths", nargs="+", type=int, default=[128, 512])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--lines", type=int, default=0, help="print so many lines that move most")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    count_kernels()
    for name, build in models(asked).items():
        os.environ["PEIRCE_KERNELS"] = "on" if name.endswith(KERNELS) else "off"
        for length in asked.lengths:
            try:
                model: Any = build()
                actual = min(length, model.signature.largest.get("length", length))
                if any(row["model"] == name and row["length"] == actual for row in rows):
                    continue  # it reads no more
                rows += rows_of(name, model, feeds_of(model, asked, length), asked, actual)
                peer = bert_like(model, asked, actual)
            except (RuntimeError, NotImplementedError, peirce.PeirceError) as error:
                rows.append(
                    {"model": name, "batch": asked.batch, "length": length, "note": sentence(error)[:120]}
                )
                continue
            for row in rows[-2:]:
                row["GB / BERT"] = row["GB"] / peer[row["what"]] if peer else None
        print(name, flush=True)
    record("traffic", rows)


def models(asked: argparse.Namespace) -> dict[str, Callable[[], nn.Module]]:
    """How each model is made, on `meta`, by name."""
    dtype = getattr(torch, asked.dtype)

    def ready(name: str) -> nn.Module:
        return peirce.build(peirce.Spec.from_toml(sized(name, "full")), seed=0).to("meta", dtype)

    def layer(letters: str) -> nn.Module:
        changes = {"model.dims.layers": 1, "model.heads": [], "model.operators.layer": letters}
        return peirce.build(peirce.load_spec("folnet-base", changes), seed=0).to("meta", dtype)

    found = {name: lambda name=name: ready(name) for name in asked.specs or sorted(ready_specs())}
    if not asked.specs:
        layers = {"jmc.atp": "jmc.atp", **LETTERS}
        del layers["bool"]  # which is in every layer
        found |= {
            f"layer of {name}": lambda letters=letters: layer(letters) for name, letters in layers.items()
        }
        if find_spec("triton"):
            found[f"layer of jmc.atp{KERNELS}"] = lambda: layer("jmc.atp")
    return found


def feeds_of(model: Any, asked: argparse.Namespace, length: int) -> dict[str, Tensor]:
    """Inputs of a length, or of the most that the model reads, on `meta`; no padding, and nothing optional."""
    most = model.signature.largest
    sizes = {dim: min(length, most.get(dim, length)) for dim in model.signature.symbols} | {
        "batch": asked.batch
    }
    found = inputs(model.signature, Case(name="counted", sizes=sizes), 0, np.dtype(np.float32))
    needed = [spec.name for spec in model.signature.inputs if spec.required]
    tensors = {name: torch.from_numpy(found[name]).to("meta") for name in needed}
    dtype = getattr(torch, asked.dtype)
    return {name: each.to(dtype) if each.is_floating_point() else each for name, each in tensors.items()}


def bert_like(model: Any, asked: argparse.Namespace, length: int) -> dict[str, float]:
    """Bytes of transformers' BERT of the same sizes, forward and step; none where there are no such sizes."""
    dims = model.spec.dims
    if not {"layers", "unary", "heads"} <= set(dims) or dims["unary"] % dims["heads"]:
        return {}
    config = BertConfig(
        num_hidden_layers=dims["layers"],
        hidden_size=dims["unary"],
        num_attention_heads=dims["heads"],
        intermediate_size=4 * dims["unary"],
        max_position_embeddings=max(asked.lengths),
    )
    with torch.device("meta"):
        peer = BertModel(config, add_pooling_layer=False).to(getattr(torch, asked.dtype))
        ids = torch.zeros(asked.batch, length, dtype=torch.int64)
    found = {}
    for what in ("forward", "step"):
        peer.train(what == "step")
        found[what] = sum(counted(lambda: peer(ids), what == "step").bytes.values()) / 1e9
    return found


if __name__ == "__main__":
    main()
