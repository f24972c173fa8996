"""DeBERTa's content-position terms against the published network."""

from __future__ import annotations

import re

import pytest
import torch
from first_scores import IDS, MASK, SPECS, random_model, with_position
from small_specs import TRANSFORMER

from peirce.compose import build
from peirce.parts import Dims, Tokens
from peirce.registry import Registry
from peirce_basics.positions.disentangled import Disentangled

DIMS = Dims(layers=2, unary=8, heads=2, head_size=3, feedforward_unary=1, vocabulary=9)


def plain(length: int) -> Tokens:
    return Tokens({}, None, torch.arange(length).unsqueeze(0), length)


@pytest.mark.parametrize(("clip", "longest"), [(256, 512), (32, 512), (4, 16)])
def test_buckets_are_the_published_ones(clip: int, longest: int) -> None:
    from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

    position = Disentangled(Disentangled.Options(clip=clip, max_distance=longest, converse="code"), DIMS)
    length = longest + 3
    wanted = build_relative_position(torch.zeros(1, length, 1), torch.zeros(1, length, 1), clip, longest)
    bias = position.pairs(plain(length))[0]
    assert bias.key is not None
    rows = position.keys[0](position.distances.weight)[(wanted + clip).clamp(0, 2 * clip - 1)]
    torch.testing.assert_close(bias.key[0][bias.ids], rows.unflatten(3, (2, 3)))


@pytest.mark.parametrize("architecture", SPECS)
def test_the_layer_s_own_maps_read_distances(architecture: str, registry: Registry) -> None:
    """As maps of the position's own with their weights do, of which those of keys have no bias; `attention` has two
    heads of keys for four of queries.
    """
    options = {"use": "disentangled", "clip": 3, "norm": True}
    ours, apart = (
        random_model(with_position(architecture, {**options, "share_maps": share}), registry)
        for share in (True, False)
    )
    state = ours.state_dict()
    for name, value in state.items():
        if re.search(r"\.(assoc\.premise|attention\.key)\.bias$", name):
            value.zero_()
    copied = apart.state_dict()
    for name, value in copied.items():
        own = re.search(r"\.(keys|queries)\.(\d)\.(\w+)$", name)
        role = {"keys": "(assoc.premise|attention.key)", "queries": "(assoc.kernel|attention.query)"}
        pattern = own and rf"layers\.{own[2]}\..*{role[own[1]]}\.{own[3]}$"
        weight = next(
            each for key, each in state.items() if (re.search(pattern, key) if pattern else key == name)
        )
        heads = weight.unflatten(0, (-1, 4)) if len(weight) < len(value) else weight
        copied[name] = heads.repeat_interleave(2, 0).flatten(0, 1) if heads is not weight else weight
    apart.load_state_dict(copied)
    wanted, found = (model(input_ids=IDS, attention_mask=MASK)["unary"] for model in (apart, ours))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_it_is_the_published_network(registry: Registry) -> None:
    """The same weights give the same atoms; the published factor 1 / sqrt(3) is put into the maps of queries."""
    import transformers

    config = transformers.DebertaConfig(
        vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96,
        relative_attention=True, pos_att_type=["c2p", "p2c"], position_biased_input=False,
        max_position_embeddings=32, max_relative_positions=4, type_vocab_size=0, layer_norm_eps=1e-12,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.DebertaModel(config).double().eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    spec = TRANSFORMER.replace(
        {
            "model.positions": [{"use": "disentangled", "clip": 4, "converse": "code"}],
            "model.input.token_types": 0,
            "model.regularisation.dropout": 0.0,
        }
    )
    ours = build(spec, registry=registry, dtype=torch.float64).eval()
    _copy(theirs.state_dict(), ours)
    ids = torch.randint(1, 40, (3, 11))
    mask = torch.ones(3, 11, dtype=torch.bool)
    mask[1, 7:] = False
    ids[1, 7:] = 0
    with torch.no_grad():
        wanted = theirs(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        got = ours(input_ids=ids, attention_mask=mask)["unary"]
    # The published scales are numbers of float32.
    torch.testing.assert_close(got[mask], wanted[mask], rtol=1e-6, atol=1e-6)


def _copy(theirs: dict[str, torch.Tensor], ours: torch.nn.Module) -> None:
    """Weights of a DebertaModel by the names of Peirce's transformer."""
    share = 3**-0.5
    state = ours.state_dict()

    def put(name: str, value: torch.Tensor) -> None:
        assert state[name].shape == value.shape, name
        state[name] = value

    put("network.input.embedding.weight", theirs["embeddings.word_embeddings.weight"])
    put("network.input.positions.0.distances.weight", theirs["encoder.rel_embeddings.weight"])
    for kind in ("weight", "bias"):
        put(f"network.input_norm.{kind}", theirs[f"embeddings.LayerNorm.{kind}"])
    for layer in range(2):
        own, of = f"network.layers.{layer}", f"encoder.layer.{layer}"
        # Heads come first, and each has its query, key and value.
        qkv = (
            theirs[f"{of}.attention.self.in_proj.weight"].view(3, 3, 8, 24).transpose(0, 1).reshape(3, 24, 24)
        )
        biases = [
            theirs[f"{of}.attention.self.q_bias"],
            torch.zeros(24),
            theirs[f"{of}.attention.self.v_bias"],
        ]
        operators = {int(n.split(".")[4]): n.split(".")[5] for n in state if f"{own}.operators." in n}
        names = {name: f"{own}.operators.{place}.{name}" for place, name in operators.items()}
        for role, part, factor in (
            (f"{names['assoc']}.kernel", 0, share),
            (f"{names['assoc']}.premise", 1, 1.0),
            (f"{names['join']}.premise", 2, 1.0),
        ):
            put(f"{role}.weight", qkv[part] * factor)
            if f"{role}.bias" in state:
                put(f"{role}.bias", biases[part].double() * factor)
        put(f"network.input.positions.0.keys.{layer}.weight", theirs[f"{of}.attention.self.pos_proj.weight"])
        for kind in ("weight", "bias"):
            query = theirs[f"{of}.attention.self.pos_q_proj.{kind}"] * share
            put(f"network.input.positions.0.queries.{layer}.{kind}", query)
            put(f"{names['join']}.output.{kind}", theirs[f"{of}.attention.output.dense.{kind}"])
            put(f"{own}.norms.0.{kind}", theirs[f"{of}.attention.output.LayerNorm.{kind}"])
            put(f"{own}.norms.1.{kind}", theirs[f"{of}.output.LayerNorm.{kind}"])
        weights = [n for n in state if n.startswith(names["bool"]) and n.endswith("weight")]
        inner, outer = sorted(weights, key=lambda name: state[name].shape, reverse=True)
        for name, module in ((inner, "intermediate.dense"), (outer, "output.dense")):
            for kind in ("weight", "bias"):
                put(name.replace("weight", kind), theirs[f"{of}.{module}.{kind}"])
    ours.load_state_dict(state)
