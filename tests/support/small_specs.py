"""Small specs that several tests compose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peirce.spec import Spec

FOLNET = Spec.from_toml(
    """
format = 1
[model]
name = "small-folnet"
architecture = "folnet"
[model.dims]
layers = 2
unary = 24
binary = 6
heads = 3
head_size = 4
[model.input]
vocabulary = 40
max_length = 32
[model.operators]
layer = "jmc.atp"
[[model.positions]]
use = "distance"
clip = 4
cls = true
[[model.heads]]
use = "mlm"
[[model.heads]]
use = "pair"
as = "nsp"
""",
    source="small-folnet.toml",
)

RECURRENT = Spec.from_toml(
    """
format = 1
[model]
name = "small-recurrent"
architecture = "recurrent"
[model.dims]
layers = 2
unary = 6
[model.options]
directions = "forward"
[model.scope]
kind = "causal"
[model.input]
vocabulary = 40
max_length = 32
[[model.positions]]
use = "absolute"
[[model.heads]]
use = "causal_lm"
""",
    source="small-recurrent.toml",
)
"""A recurrent network that generates."""

TRANSFORMER = Spec.from_toml(
    """
format = 1
[model]
name = "small-transformer"
architecture = "transformer"
[model.dims]
layers = 2
unary = 24
heads = 3
[model.input]
vocabulary = 40
max_length = 32
[[model.positions]]
use = "shaw"
clip = 4
[[model.heads]]
use = "mlm"
""",
    source="small-transformer.toml",
)

NARROW: Mapping[str, Any] = {"model.dims.layers": 1, "model.dims.unary": 32, "model.dims.heads": 4}
"""What makes a ready transformer small."""

PAPER_CJOIN: Mapping[str, Any] = {"model.operators.options": {"cjoin": {"premise": "paper"}}}
"""The cjoin that causal and prefix scopes need."""

DECODER = FOLNET.replace(
    {
        "model.name": "small-decoder",
        "model.scope.kind": "causal",
        **PAPER_CJOIN,
        "model.heads": [{"use": "causal_lm", "as": "lm"}],
    }
)

ENCODER_DECODER = DECODER.replace(
    {
        "model.name": "small-encoder-decoder",
        "model.architecture": "folnet_encoder_decoder",
        "model.scope.kind": "bidirectional",
    }
)
