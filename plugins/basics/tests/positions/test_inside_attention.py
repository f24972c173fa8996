"""Positions inside attention: their formulas by loops, from a cached state, in blocks of rows, and compiled.

Each is held on a transformer and on FOLNet's assoc, with padding on the right, on the left and inside.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from first_scores import IDS, MASK, Scored, first_scores, random_model, with_position
from small_specs import ENCODER_DECODER
from thorough import often
from torch import Tensor

import peirce
from peirce.algebra import Scope
from peirce.model import Model
from peirce.registry import Registry
from peirce_folnet.operators.join import Join

ROOT = 4**0.5
"""Of the head size."""
Expected = Callable[[Model, list[float], list[float], int, int, int], float]
"""From a query and a key without scale, the head, and the positions of x and y, the score times `ROOT`."""


def dot(one: list[float], other: list[float]) -> float:
    return sum(u * v for u, v in zip(one, other, strict=True))


def parameter(model: Model, name: str) -> Any:
    """The one parameter of a position whose name ends so."""
    [found] = [p for n, p in model.named_parameters() if ".positions." in n and n.endswith(name)]
    return found.detach()


def turned(pairing: str, fraction: float) -> Expected:
    def expected(model: Model, query: list[float], key: list[float], head: int, x: int, y: int) -> float:
        pairs = int(4 * fraction) // 2
        places = [(c, c + pairs) if pairing == "halves" else (2 * c, 2 * c + 1) for c in range(pairs)]

        def complex_of(vector: list[float], index: int) -> list[complex]:
            return [
                complex(vector[one], vector[other]) * cmath.exp(1j * index * 100.0 ** (-c / pairs))
                for c, (one, other) in enumerate(places)
            ]

        met = zip(complex_of(query, x), complex_of(key, y), strict=True)
        return sum((u * v.conjugate()).real for u, v in met) + dot(query[2 * pairs :], key[2 * pairs :])

    return expected


def penalised(model: Model, query: list[float], key: list[float], head: int, x: int, y: int) -> float:
    slopes = {3: [1 / 16, 1 / 256, 1 / 4], 6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]}
    heads = next(len(s) for s in slopes.values() if len(s) == model.plan.dims.heads)
    return dot(query, key) - ROOT * slopes[heads][head] * abs(x - y)


def four_terms(model: Model, query: list[float], key: list[float], head: int, x: int, y: int) -> float:
    width = model.plan.dims.unary
    rates = [10000.0 ** (-2 * i / width) for i in range(width // 2)]
    wave = [math.sin((x - y) * r) for r in rates] + [math.cos((x - y) * r) for r in rates]
    rows = parameter(model, "maps.0.weight")[head * 4 : head * 4 + 4].tolist()
    far = [dot(row, wave) for row in rows]
    u, v = (parameter(model, name)[0, head].tolist() for name in (".content", ".position"))
    return dot(query, key) + dot(query, far) + dot(u, key) + dot(v, far)


def interpolated(model: Model, query: list[float], key: list[float], head: int, x: int, y: int) -> float:
    slope, share = (float(parameter(model, f"networks.0.{name}")) for name in ("slope", "threshold"))

    def psi(distance: float) -> float:
        return math.log(abs(slope * distance) + 1)

    seen = psi(abs(x - y)) / (psi(max(abs(share * 4.0), x)) + 1e-6)
    names = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")
    weight, bias, out, last = (parameter(model, f"networks.0.{name}").tolist() for name in names)
    hidden = [max(0.0, w[0] * seen + b) for w, b in zip(weight, bias, strict=True)]
    return dot(query, key) + ROOT * (dot(out[head], hidden) + last[head])


CASES: Mapping[str, tuple[dict[str, Any], Expected | None]] = {
    "rope, halves": ({"use": "rope", "base": 100.0}, turned("halves", 1.0)),
    "rope, interleaved": (
        {"use": "rope", "base": 100.0, "pairing": "interleaved"},
        turned("interleaved", 1.0),
    ),
    "rope, half of a head": ({"use": "rope", "base": 100.0, "fraction": 0.5}, turned("halves", 0.5)),
    "alibi": ({"use": "alibi"}, penalised),
    "transformer_xl": ({"use": "transformer_xl"}, four_terms),
    "fire": ({"use": "fire", "threshold": 4.0}, interpolated),
    "cope": ({"use": "cope", "positions": 4}, None),
}
every_case = pytest.mark.parametrize("case", list(CASES))
both = pytest.mark.parametrize("architecture", ["transformer", "folnet"])


def spec_of(case: str, architecture: str, **changes: Any) -> Any:
    options = CASES[case][0] | ({"share_layers": True} if case in ("fire", "cope") else {})
    options |= {"share_biases": True} if case == "transformer_xl" else {}
    return with_position(architecture, options, **changes)


def raw(model: Model, monkeypatch: pytest.MonkeyPatch) -> Scored:
    """Queries and keys without the scale that the operator gives them."""
    query, key, scores = first_scores(model, monkeypatch, input_ids=IDS, attention_mask=MASK)
    return Scored(query * ROOT**0.5, key * ROOT**0.5, scores)


def places_of(real: list[bool]) -> list[int]:
    """The number of each real token; padding has that of the real token before it, or 0."""
    return [max(sum(real[: at + 1]) - 1, 0) for at in range(len(real))]


@both
@every_case
def test_scores_are_those_of_the_formula(
    case: str, architecture: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = random_model(spec_of(case, architecture), registry)
    query, key, _ = raw(random_model(with_position(architecture), registry), monkeypatch)
    got = first_scores(model, monkeypatch, input_ids=IDS, attention_mask=MASK).scores
    for i, real in enumerate(MASK.tolist()):
        places = places_of(real)
        for x in (x for x in range(len(real)) if real[x]):
            seen = [y for y in range(x + 1) if real[y]]
            for h in range(query.shape[2]):
                asks, answers = query[i, x, h].tolist(), [key[i, y, h].tolist() for y in seen]
                expected = CASES[case][1]
                if expected is None:
                    wanted = counted(model, asks, answers)
                else:
                    wanted = [
                        expected(model, asks, one, h, places[x], places[y])
                        for one, y in zip(answers, seen, strict=True)
                    ]
                found = got[i, x, seen, h]
                torch.testing.assert_close(found, found.new_tensor(wanted) / ROOT, rtol=1e-9, atol=1e-9)


def counted(model: Model, query: list[float], keys: list[list[float]]) -> list[float]:
    """CoPE: the scores, times `ROOT`, of the keys that a query sees, the last of which is the row's own."""
    vectors = parameter(model, ".vectors")[0, 0].tolist()
    gates = [1 / (1 + math.exp(-dot(query, key) / ROOT)) for key in keys]
    found = []
    for at, key in enumerate(keys):
        count = min(sum(gates[at:]), 3.0)
        low = math.floor(count)
        between = [
            (count - low) * upper + (1 - count + low) * lower
            for lower, upper in zip(vectors[low], vectors[math.ceil(count)], strict=True)
        ]
        found.append(dot(query, key) + ROOT * dot(query, between))
    return found


@pytest.mark.parametrize("architecture", ["transformer", "folnet", "attention"])
@every_case
def test_tokens_one_by_one_are_those_of_one_pass(case: str, architecture: str, registry: Registry) -> None:
    network: Any = random_model(spec_of(case, architecture), registry).network
    with torch.no_grad():
        whole = network({"input_ids": IDS, "attention_mask": MASK})[0].unary
        pieces, cache = [], {}
        for start, stop in ((0, 3), (3, 4), (4, 6), (6, 7)):
            given = {"input_ids": IDS[:, start:stop], "attention_mask": MASK[:, start:stop]}
            encoded, _, cache = network.advance(given, cache)
            pieces.append(encoded.unary)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-9, atol=1e-9)


@every_case
def test_blocks_of_rows_change_nothing(case: str, registry: Registry) -> None:
    """Relations of 90 tokens are worked on in blocks of rows; without fusing, they are worked on at once."""
    sizes = {"model.dims.binary": 48, "model.input.max_length": 90}
    spec = spec_of(case, "folnet").replace(sizes)
    ids = torch.randint(40, (1, 90), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(1, 90, dtype=torch.bool)
    mask[0, 40:50] = False
    with torch.no_grad():
        blocks, whole = (
            random_model(spec, registry, fuse=fuse)(input_ids=ids, attention_mask=mask)
            for fuse in (True, False)
        )
    for name, value in whole.items():
        torch.testing.assert_close(blocks[name], value, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("architecture", often(["transformer", "folnet"], ["transformer"]))
@pytest.mark.parametrize("case", often(list(CASES), ["rope, halves", "transformer_xl", "cope"]))
def test_compiled_models_give_the_same(case: str, architecture: str, registry: Registry) -> None:
    model = random_model(spec_of(case, architecture).replace({"model.dims.layers": 1}), registry)
    compiled = torch.compile(model.network, backend="eager", dynamic=True)
    given = {"input_ids": IDS, "attention_mask": MASK}
    torch.testing.assert_close(compiled(given)[0].unary, model.network(given)[0].unary)


@pytest.mark.parametrize("scope", ["bidirectional", "prefix", "relation"])
def test_contextual_counts_need_a_causal_scope(scope: str, registry: Registry) -> None:
    with pytest.raises(peirce.PlanError, match=f"not '{scope}'"):
        random_model(spec_of("cope", "transformer", scope=scope), registry)


def test_operators_know_where_tokens_stand(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a decoder, whose rows are the target's tokens, and token by token; source and target count by themselves."""
    network: Any = random_model(ENCODER_DECODER.replace({"model.heads": []}), registry).network
    seen: list[tuple[list[list[int]], list[list[int]]]] = []
    infer = Join.infer

    def noted(self: Join, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        seen.append((scope.rows.tolist(), scope.columns.tolist()))
        return infer(self, kernel, premise, scope)

    monkeypatch.setattr(Join, "infer", noted)
    real, cache = MASK[1:].long(), {}
    for ids in (IDS[1:, :2], IDS[1:, 2:3]):
        given = {"decoder_input_ids": ids} | (
            {} if cache else {"input_ids": IDS[1:], "attention_mask": MASK[1:]}
        )
        *_, cache = network.advance(given, cache)
    source = [places_of(row) for row in real.tolist()]
    assert seen[0][1] == source  # the encoder's
    decoder = [each for each in seen if len(each[1][0]) > 7]
    assert decoder[0] == ([[0, 1]] * 2, [[*row, 0, 1] for row in source])
    assert decoder[-1] == ([[2]] * 2, [[*row, 0, 1, 2] for row in source])


def test_texts_that_are_packed_are_counted_apart(registry: Registry) -> None:
    """Two texts in one row, kept apart and counted anew, have the atoms that each has alone."""
    spec = with_position("transformer", *(CASES[case][0] for case in ("rope, halves", "fire", "cope")))
    apart = {"use": "same_text", "restart": True}
    packed = spec.replace({"model.positions": [*_tables(spec), {"use": "absolute"}, apart]})
    alone = spec.replace({"model.positions": [*_tables(spec), {"use": "absolute"}]})
    types = torch.tensor([[0, 0, 0, 1, 1, 1, 1]]).expand(3, -1)
    whole: Tensor = random_model(packed, registry)(input_ids=IDS, attention_mask=MASK, token_type_ids=types)[
        "unary"
    ]
    model = random_model(alone, registry)
    for part in (slice(0, 3), slice(3, 7)):
        given = {"input_ids": IDS[:, part], "attention_mask": MASK[:, part]}
        one = model(**given, token_type_ids=types[:, part])["unary"]
        torch.testing.assert_close(whole[:, part], one, rtol=1e-9, atol=1e-9)


def _tables(spec: Any) -> list[dict[str, Any]]:
    return [dict(each.options, use=each.use) for each in spec.positions]
