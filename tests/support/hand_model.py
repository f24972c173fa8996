"""A small model written by hand, with a signature as a composed model has it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from peirce.parts import Signature, TensorSpec

ROW = ("batch", "length")
SIGNATURE = Signature(
    [
        TensorSpec(
            name="input_ids", dtype="int64", dims=ROW, high=11, meaning="Token ids.", largest={"length": 64}
        ),
        TensorSpec(
            name="attention_mask", dtype="bool", dims=ROW, required=False, default=True, masks="length"
        ),
        TensorSpec(name="token_type_ids", dtype="int64", dims=ROW, required=False, default=0, high=2),
        TensorSpec(name="logical_ids", dtype="int64", dims=("batch", "levels", "length"), high=4),
    ],
    [
        TensorSpec(name="unary", dtype="float", dims=(*ROW, 8)),
        TensorSpec(name="binary", dtype="float", dims=(*ROW, "length", 3)),
        TensorSpec(name="pooled", dtype="float", dims=("batch", 8)),
    ],
)


class Text:
    """Stands where a model has its spec: an exporter asks it for its TOML."""

    def to_toml(self) -> str:
        return 'format = 1\n\n[model]\nname = "hand"\n'


class Hand(nn.Module):
    """Masked attention over tokens with types and levels, its norm and softmax in float32."""

    signature = SIGNATURE
    spec = Text()

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.tokens, self.types, self.levels = nn.Embedding(11, 8), nn.Embedding(2, 8), nn.Embedding(4, 8)
        self.query, self.pairs = nn.Linear(8, 8), nn.Linear(1, 3)
        self.provenance: dict[str, Any] = {"format": 1, "parts": []}

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        ids, real = inputs["input_ids"], inputs["attention_mask"]
        atoms = self.tokens(ids) + self.types(inputs["token_type_ids"])
        atoms = atoms + self.levels(inputs["logical_ids"]).sum(1)
        scores = self.query(atoms) @ atoms.transpose(1, 2)
        pairs = real.unsqueeze(1) & real.unsqueeze(2)
        exact = scores if scores.dtype == torch.float64 else scores.float()
        weights = exact.masked_fill(~pairs, torch.finfo(exact.dtype).min).softmax(-1).masked_fill(~pairs, 0.0)
        unary = weights.to(atoms.dtype) @ atoms
        return {
            "unary": unary.masked_fill(~real.unsqueeze(-1), 0.0),
            "binary": self.pairs(scores.unsqueeze(-1)),
            "pooled": torch.tanh(atoms[:, 0]),
        }
