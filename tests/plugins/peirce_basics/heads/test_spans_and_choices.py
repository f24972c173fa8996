"""The heads `span` and `multiple_choice`: their losses worked by hand, and what they refuse."""

from __future__ import annotations

import math

import pytest
import torch
from peirce.algebra import Scope
from peirce.errors import InputError
from peirce.parts import Dims, Encoded, NoOptions, Tokens
from peirce_basics.heads.multiple_choice import MultipleChoice, MultipleChoiceOptions
from peirce_basics.heads.span import Span

DIMS = Dims(layers=1, unary=3, heads=1, head_size=3, feedforward_unary=6, vocabulary=8)
NO = -100


def span_loss(logits: list[list[float]], labels: list[list[int]]) -> float:
    head = Span(NoOptions(), DIMS)
    return head.loss({"logits": torch.tensor([logits])}, torch.tensor([labels])).item()


def test_a_span_is_chosen_among_the_places_where_it_may_be() -> None:
    # Four places, the third of which may be neither; e^0 + e^1 + e^2 and 3 e^0 are what is left.
    logits = [[0.0, 0.0], [1.0, 0.0], [50.0, 50.0], [2.0, 0.0]]
    labels = [[0, 0], [1, 0], [NO, NO], [0, 1]]
    start = math.log(1 + math.e + math.e**2) - 1
    end = math.log(3)
    assert span_loss(logits, labels) == pytest.approx((start + end) / 2)


def test_several_right_places_add_up() -> None:
    logits = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
    labels = [[1, 1], [0, 1], [1, 1]]
    share = (1 + math.e**2) / (1 + math.e + math.e**2)
    assert span_loss(logits, labels) == pytest.approx((-math.log(share) + 0.0) / 2)


def test_without_a_right_place_nothing_counts() -> None:
    logits = [[3.0, -3.0], [1.0, 2.0]]
    assert span_loss(logits, [[NO, NO], [NO, NO]]) == 0.0
    assert span_loss(logits, [[0, 0], [0, 0]]) == 0.0
    only_end = math.log(1 + math.exp(-5.0))
    assert span_loss(logits, [[NO, 0], [NO, 1]]) == pytest.approx(only_end, rel=1e-4)


def test_gradients_stay_finite_where_nothing_counts() -> None:
    logits = torch.randn(2, 3, 2, requires_grad=True)
    labels = torch.full((2, 3, 2), NO)
    labels[0, :2] = 0
    labels[0, 1] = 1
    Span(NoOptions(), DIMS).loss({"logits": logits}, labels).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert logits.grad[1].eq(0).all()
    assert logits.grad[0, 2].eq(0).all()
    assert logits.grad[0, :2].ne(0).all()


def test_the_loss_of_a_span_is_computed_in_float32() -> None:
    logits = torch.zeros(1, 3, 2, dtype=torch.float16)
    labels = torch.tensor([[[1, 1], [0, 0], [0, 0]]])
    loss = Span(NoOptions(), DIMS).loss({"logits": logits}, labels)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(math.log(3), rel=1e-6)


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"\[2, 2, 2\]"):
        Span(NoOptions(), DIMS).loss({"logits": torch.zeros(2, 2, 2)}, torch.zeros(2, 2, dtype=torch.int64))


def test_padding_has_no_span() -> None:
    torch.manual_seed(0)
    real = torch.tensor([[True, True, False]])
    encoded = Encoded(torch.randn(1, 3, 3), None, None, Scope.padding(real), torch.eye(8, 3))
    tokens = Tokens({"input_ids": torch.zeros(1, 3, dtype=torch.int64)}, real, torch.arange(3)[None], 3)
    logits = Span(NoOptions(), DIMS)(encoded, tokens)["logits"]
    assert logits.shape == (1, 3, 2)
    assert logits[0, 2].eq(0).all()
    assert logits[0, :2].ne(0).all()


def choice(choices: int = 2) -> MultipleChoice:
    return MultipleChoice(MultipleChoiceOptions(choices=choices), DIMS)


def test_the_rows_of_a_question_compete_and_no_others() -> None:
    outputs = {"logits": torch.tensor([0.0, 1.0, 2.0, 5.0, 5.0, 5.0])}
    first = math.log(1 + math.e + math.e**2) - 2
    expected = (first + math.log(3)) / 2
    assert choice(3).loss(outputs, torch.tensor([2, 0])).item() == pytest.approx(expected)
    shares = torch.tensor([0.0, 0.0, 1.0, 0.5, 0.5, 0.0])
    assert choice(3).loss(outputs, shares).item() == pytest.approx(expected)


def test_a_row_has_one_score() -> None:
    torch.manual_seed(0)
    head = choice().eval()
    pooled = torch.randn(4, 3)
    encoded = Encoded(torch.zeros(4, 1, 3), None, pooled, Scope(), torch.eye(8, 3))
    tokens = Tokens({"input_ids": torch.zeros(4, 1, dtype=torch.int64)}, None, torch.zeros(1, 1), 1)
    logits = head(encoded, tokens)["logits"]
    assert logits.tolist() == pytest.approx((pooled @ head.dense.weight[0] + head.dense.bias).tolist())
    assert head.outputs()[0].dims == ("batch",)


def test_half_a_question_is_refused() -> None:
    with pytest.raises(InputError, match="5 rows is no whole number of questions with 2 choices"):
        choice().loss({"logits": torch.zeros(5)}, torch.zeros(2, dtype=torch.int64))
    with pytest.raises(InputError, match=r"int64 \[2\]"):
        choice().loss({"logits": torch.zeros(4)}, torch.zeros(4, dtype=torch.int64))
