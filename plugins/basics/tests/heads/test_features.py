"""What a classification reads beside the pooled output: n-grams, and what a training begins with."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import peirce
from peirce.model import Model
from peirce.parts import Head
from peirce_basics.heads.features import NGrams

SPEC = """
format = 1
[model]
name = "wide"
architecture = "transformer"
dims = { layers = 1, unary = 8, heads = 2 }
input = { vocabulary = 30 }
"""


def classifier(**options: Any) -> Model:
    heads = [{"use": "classification", **options}]
    return peirce.build(peirce.Spec.from_toml(SPEC).replace({"model.heads": heads}), seed=0).eval()


def test_ngrams_are_summed_by_importance() -> None:
    table = NGrams(2, 97, 3)
    torch.manual_seed(0)
    torch.nn.init.uniform_(table.importance)
    torch.nn.init.normal_(table.scores)
    ids = [4, 7, 4, 4]
    numbers = [*ids, *((a * 1_000_003 + b + 1) % 97 for a, b in pairwise(ids))]
    weights = table.importance[numbers]
    expected = sum(w * table.scores[n] for w, n in zip(weights, numbers, strict=True)) / weights.norm()
    for padded, first in (([*ids, 0, 0], 0), ([0, 0, *ids], 2)):
        real = torch.zeros(1, 6, dtype=torch.bool)
        real[0, first : first + 4] = True
        assert torch.allclose(table(torch.tensor([padded]), real)[0], expected, atol=1e-6)
    assert torch.allclose(table(torch.tensor([ids]), None)[0], expected, atol=1e-6)
    assert table(torch.tensor([ids]), torch.zeros(1, 4, dtype=torch.bool)).abs().max() == 0


def texts(labels: Tensor) -> Tensor:
    """Texts of six tokens, of which the third tells the label."""
    found = torch.randint(10, 30, (len(labels), 6), generator=torch.Generator().manual_seed(0))
    found[:, 2] = labels + 3
    return found


def fit(model: Model, labels: Tensor, weights: Callable[[Tensor], Tensor] | None = None) -> str:
    head = model.heads["classification"]
    assert isinstance(head, Head)
    batches = [labels[:20], labels[20:]]
    ids = texts(labels).split([20, len(labels) - 20])
    with torch.inference_mode():
        examples = [
            (*model.network({"input_ids": x}), y, weights and weights(y))
            for x, y in zip(ids, batches, strict=True)
        ]
        return head.fit(examples)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [{"ngrams": 2}, {}])
def test_a_regression_learns_what_tokens_tell(classes: int, options: dict[str, Any]) -> None:
    model = classifier(classes=classes, begin="regression", **options)
    labels = torch.arange(60) % classes
    assert "a logistic regression on" in fit(model, labels)
    logits = model(input_ids=texts(labels))["classification_logits"]
    share = float((logits.argmax(1) == labels).float().mean())
    assert share == 1 if options == {"ngrams": 2} else share > 0.4


def test_the_scores_are_those_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    model = classifier(classes=3, begin="regression")
    labels = torch.arange(60) % 3
    vectors = model(input_ids=texts(labels))["pooled"].detach().double()
    scaled = (vectors / vectors.norm(dim=1).mean()).numpy()
    expected = LogisticRegression(C=10, max_iter=300).fit(scaled, labels).decision_function(scaled)
    fit(model, labels)
    found = model(input_ids=texts(labels))["classification_logits"].detach().numpy()
    assert np.allclose(found, expected, atol=1e-3)


def test_weights_count_and_a_class_without_examples_is_never_likely() -> None:
    model = classifier(classes=4, begin="regression", ngrams=1)
    labels = torch.where(torch.arange(60) < 50, 0, 2)
    fit(model, labels, lambda y: torch.where(y == 2, 5.0, 1.0))
    logits = model(input_ids=torch.full((1, 3), 29))["classification_logits"][0]
    assert logits[[1, 3]].max() < logits[[0, 2]].min() - 5


def test_numbers_and_random_starts_are_left_alone() -> None:
    for options in ({}, {"problem": "regression", "classes": 1, "begin": "regression"}):
        model = classifier(**options)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        assert fit(model, torch.arange(60) % 2) == ""
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
