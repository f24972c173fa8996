"""Heads: which tokens they pool, what their losses are, what they refuse."""

from __future__ import annotations

import math

import attrs
import pytest
import torch
from small_specs import FOLNET

import peirce
from peirce.algebra import Scope
from peirce.errors import InputError
from peirce.parts import Dims, Encoded, NoOptions, Tokens
from peirce.registry import Registry
from peirce_basics.heads.contrastive import Contrastive, ContrastiveOptions
from peirce_basics.heads.linear import (
    ClassesOptions,
    Classification,
    ClassificationOptions,
    MultipleChoice,
    MultipleChoiceOptions,
    Relation,
    RelationOptions,
    Span,
    Swap,
    TokenClassification,
)
from peirce_basics.heads.vocabulary import MaskedLanguageModel, MlmOptions
from peirce_kg.parts.heads.entities import Entities, EntitiesOptions

DIMS = Dims(layers=1, unary=3, heads=1, head_size=3, feedforward_unary=6, vocabulary=8)
BINARY = attrs.evolve(DIMS, binary=4, feedforward_binary=8)
FREE = 7


def encode(ids: list[list[int]], real: list[list[bool]] | None = None) -> tuple[Encoded, Tokens]:
    """Unary atoms whose channels hold the token id, its place and one."""
    values = torch.tensor(ids)
    place = torch.arange(values.shape[1]).expand_as(values)
    unary = torch.stack([values, place, torch.ones_like(values)], -1).float()
    mask = None if real is None else torch.tensor(real)
    index = place[:1] if mask is None else (mask.long().cumsum(1) - 1).clamp_min(0)
    embeddings = torch.eye(8, 3)
    encoded = Encoded(unary, None, None, Scope.padding(mask), embeddings)
    return encoded, Tokens({"input_ids": values}, mask, index, values.shape[1])


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ("sum", [[14.0, 4.0, 2.0], [0.0, 0.0, 0.0]]),
        ("mean", [[7.0, 2.0, 1.0], [0.0, 0.0, 0.0]]),
        ("max", [[7.0, 3.0, 1.0], [0.0, 0.0, 0.0]]),
        ("cls", [[2.0, 0.0, 1.0], [3.0, 1.0, 1.0]]),
    ],
)
def test_every_free_variable_is_pooled_and_padding_never(pool: str, expected: list[list[float]]) -> None:
    head = Entities(EntitiesOptions(pool=pool, free=FREE), DIMS)
    ids = [[2, FREE, 3, FREE, FREE], [FREE, 3, 4, 5, 6]]
    real = [[True, True, True, True, False], [False, True, True, True, True]]
    encoded, tokens = encode(ids, real)
    assert head.pool(encoded.unary, tokens).tolist() == expected


def test_entities_are_ranked_by_their_own_embeddings() -> None:
    head = Entities(EntitiesOptions(pool="cls", first=1, count=2), DIMS)
    encoded, tokens = encode([[2, 3]])
    logits = head(encoded, tokens)["logits"]
    assert logits.tolist() == [[0.0, 1.0]]  # embeddings 1 and 2 pick the channels for place and one
    assert head.outputs()[0].dims == ("batch", 2)


def test_the_smoothed_loss_takes_one_answer_or_several() -> None:
    head = Entities(EntitiesOptions(smoothing=0.1, count=4), DIMS)
    logits = torch.tensor([[2.0, 0.0, 0.0, 0.0]])
    log_probabilities = logits.log_softmax(1)[0]
    one = 0.9 * -log_probabilities[0] + 0.1 * -log_probabilities.mean()
    assert head.loss({"logits": logits}, torch.tensor([0])).item() == pytest.approx(one.item())
    several = torch.tensor([[0.5, 0.5, 0.0, 0.0]])
    both = 0.9 * -(log_probabilities[0] + log_probabilities[1]) / 2 + 0.1 * -log_probabilities.mean()
    assert head.loss({"logits": logits}, several).item() == pytest.approx(both.item())


def test_masked_tokens_alone_are_learned() -> None:
    head = MaskedLanguageModel(MlmOptions(), DIMS)
    logits = torch.zeros(1, 3, 8)
    logits[0, 0, 5] = 100.0
    assert head.loss({"logits": logits}, torch.tensor([[5, -100, 2]])).item() == pytest.approx(
        math.log(8) / 2
    )
    assert head.loss({"logits": logits}, torch.tensor([[-100] * 3])).item() == 0.0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"problem": "regression", "classes": 2}, "classes = 1"),
        ({"problem": "single", "classes": 1}, "2 or more"),
    ],
)
def test_classification_refuses_what_cannot_be_chosen(options: dict[str, object], word: str) -> None:
    assert word in (Classification.check(ClassificationOptions(**options), DIMS, "bidirectional") or "")


def test_a_regression_is_a_squared_error() -> None:
    head = Classification(ClassificationOptions(problem="regression", classes=1), DIMS)
    loss = head.loss({"logits": torch.tensor([[1.0], [3.0]])}, torch.tensor([0.0, 1.0]))
    assert loss.item() == pytest.approx(2.5)


def test_views_of_one_text_are_found_among_the_others() -> None:
    head = Contrastive(ContrastiveOptions(temperature=0.5), DIMS)
    vectors = torch.tensor(
        [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 1.0]]
    )
    labels = torch.tensor([0, 0, 1, 1, 2])  # the last is alone and does not count
    expected = math.log(math.exp(2) + 3) - 2  # one view at cosine 1, three others at 0
    assert head.loss({"": vectors}, labels).item() == pytest.approx(expected)
    assert head.loss({"": vectors[:1]}, labels[:1]).item() == 0.0


def test_tokens_and_pairs_that_do_not_count_do_not() -> None:
    logits = torch.tensor([[[0.0, 0.0], [5.0, -5.0]]])
    tagger = TokenClassification(ClassesOptions(), DIMS)
    assert tagger.loss({"logits": logits}, torch.tensor([[1, -100]])).item() == pytest.approx(math.log(2))
    assert tagger.loss({"logits": logits}, torch.tensor([[-100, -100]])).item() == 0.0
    pairs = Swap(NoOptions(), BINARY)
    scores = torch.tensor([[[0.0, 3.0], [3.0, 0.0]]])
    labels = torch.tensor([[[-100, 1], [1, 0]]])
    expected = (2 * math.log1p(math.exp(-3)) + math.log(2)) / 3
    assert pairs.loss({"logits": scores}, labels).item() == pytest.approx(expected)


def test_pairs_are_read_from_relations() -> None:
    torch.manual_seed(0)
    scope = Scope.padding(torch.tensor([[True, True, False]]))
    binary = scope.zero_binary(torch.randn(1, 3, 3, 4))
    encoded = Encoded(torch.zeros(1, 3, 3), binary, None, scope, torch.eye(8, 3))
    _, tokens = encode([[2, 3, 4]], [[True, True, False]])
    swapped = Swap(NoOptions(), BINARY)(encoded, tokens)["logits"]
    assert torch.equal(swapped, swapped.transpose(1, 2))
    classes = Relation(RelationOptions(classes=5), BINARY)(encoded, tokens)["logits"]
    assert classes.shape == (1, 3, 3, 5)
    for logits in (swapped, classes):
        assert logits[:, 2].eq(0).all()
        assert logits[:, :, 2].eq(0).all()
        assert not logits[:, :2, :2].eq(0).any()


HEADS = {
    "classification": ({"classes": 3}, (4,)),
    "token_classification": ({"classes": 3}, (4, 5)),
    "pair": ({}, (4,)),
    "mlm": ({}, (4, 5)),
    "span": ({}, (4, 5, 2)),
    "multiple_choice": ({"choices": 2}, (2,)),
    "relation": ({"classes": 3}, (4, 5, 5)),
    "swap": ({}, (4, 5, 5)),
    "contrastive": ({}, (4,)),
}
"""The options of each head, and the shape of its labels."""


@pytest.mark.parametrize("name", HEADS)
def test_labels_that_are_none_are_refused(name: str, registry: Registry) -> None:
    options, shape = HEADS[name]
    model = peirce.build(FOLNET.replace({"model.heads": [{"use": name, **options}]}), registry=registry)
    outputs = model(input_ids=torch.ones(4, 5, dtype=torch.int64))
    right = torch.zeros(shape, dtype=torch.int64)
    assert model.loss(name, outputs, right).isfinite()
    assert model.loss(name, outputs, torch.full_like(right, -100)).isfinite()
    for wrong in (None, right[:1], right.unsqueeze(-1), right.unsqueeze(-1).float()):
        with pytest.raises(InputError, match=f"^head '{name}': labels ") as refused:
            model.loss(name, outputs, wrong)
        assert model.heads[name].labels in str(refused.value)
    if name != "contrastive":  # whose labels may be any numbers
        with pytest.raises(
            InputError, match=rf"head '{name}': labels contain 101; they must be 0 to \d+, or -100"
        ):
            model.loss(name, outputs, right + 101)


def test_answers_that_are_none_are_refused() -> None:
    head = Entities(EntitiesOptions(count=4), DIMS)
    logits = torch.zeros(2, 4)
    for labels, words in (
        (torch.tensor([4, 0]), "labels contain 4; they must be 0 to 3"),
        (torch.zeros(2, 3), r"labels are float32 \[2, 3\] and must be int64 \[2\] or float \[2, 4\]"),
        (torch.zeros(3, dtype=torch.int64), r"labels are int64 \[3\] and must be int64 \[2\]"),
    ):
        with pytest.raises(InputError, match=words):
            head.loss({"logits": logits}, labels)


def span_loss(logits: list[list[float]], labels: list[list[int]]) -> float:
    head = Span(NoOptions(), DIMS)
    return head.loss({"logits": torch.tensor([logits])}, torch.tensor([labels])).item()


def test_a_span_is_chosen_among_the_places_where_it_may_be() -> None:
    # Four places, the third of which may be neither; e^0 + e^1 + e^2 and 3 e^0 are what is left.
    logits = [[0.0, 0.0], [1.0, 0.0], [50.0, 50.0], [2.0, 0.0]]
    found = span_loss(logits, [[0, 0], [1, 0], [-100, -100], [0, 1]])
    assert found == pytest.approx((math.log(1 + math.e + math.e**2) - 1 + math.log(3)) / 2)
    # Several right places add up.
    share = (1 + math.e**2) / (1 + math.e + math.e**2)
    found = span_loss([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], [[1, 1], [0, 1], [1, 1]])
    assert found == pytest.approx(-math.log(share) / 2)
    # Without a right place nothing counts.
    logits = [[3.0, -3.0], [1.0, 2.0]]
    assert span_loss(logits, [[-100, -100]] * 2) == span_loss(logits, [[0, 0]] * 2) == 0.0
    assert span_loss(logits, [[-100, 0], [-100, 1]]) == pytest.approx(math.log(1 + math.exp(-5.0)), rel=1e-4)


def test_the_rows_of_a_question_compete_and_no_others() -> None:
    head = MultipleChoice(MultipleChoiceOptions(choices=3), DIMS).eval()
    outputs = {"logits": torch.tensor([0.0, 1.0, 2.0, 5.0, 5.0, 5.0])}
    expected = (math.log(1 + math.e + math.e**2) - 2 + math.log(3)) / 2
    shares = torch.tensor([0.0, 0.0, 1.0, 0.5, 0.5, 0.0])
    for labels in (torch.tensor([2, 0]), shares):
        assert head.loss(outputs, labels).item() == pytest.approx(expected)
    pooled = torch.randn(6, 3)
    encoded, tokens = encode([[1]] * 6)
    logits = head(encoded._replace(pooled=pooled), tokens)["logits"]
    assert logits.tolist() == pytest.approx((pooled @ head.dense.weight[0] + head.dense.bias).tolist())
    assert head.outputs()[0].dims == ("batch",)
    with pytest.raises(InputError, match="5 rows is not a whole number of questions with 3 choices"):
        head.loss({"logits": torch.zeros(5)}, torch.zeros(2, dtype=torch.int64))


def test_a_regression_predicts_in_the_unit_of_its_numbers_and_errs_in_that_of_its_scale() -> None:
    head = Classification(ClassificationOptions(classes=1, problem="regression", center=100, scale=10), DIMS)
    with torch.no_grad():
        head.dense.weight.zero_()
        head.dense.bias.fill_(0.5)
    encoded, tokens = encode([[1, 2]])
    outputs = head(encoded._replace(pooled=torch.zeros(1, DIMS.pooled)), tokens)
    assert outputs["logits"].item() == 105
    assert head.loss(outputs, torch.tensor([125.0])).item() == 4
    assert Classification.check(ClassificationOptions(classes=2, center=1.0), DIMS, "bidirectional")
