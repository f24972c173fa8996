from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_specs import DECODER, ENCODER_DECODER, FOLNET

import peirce
from peirce.compose import build
from peirce.errors import TaskError
from peirce.model import Model
from peirce.parts import IGNORED
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_text.tasks import TextData
from peirce_text.text_to_text.task import EncodedPairs, Pair, TextToText, TextToTextOptions

KINDS = {
    "causal": DECODER,
    "prefix": DECODER.replace({"model.scope.kind": "prefix"}),
    "two stacks": ENCODER_DECODER,
}
WORDS = ("cows", "sheep", "geese", "sails", "ropes", "blades")


def pairs(count: int, seed: int) -> list[dict[str, str]]:
    """Two things, and the same the other way round."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        one, other = draw.sample(WORDS, 2)
        made.append({"source": f"{one} and {other}", "target": f"{other} and {one}"})
    return made


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pairs")
    for name, count in (("data", 200), ("valid_data", 24)):
        lines = [json.dumps(row) for row in pairs(count, seed=count)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return {name: str(folder / f"{name}.jsonl") for name in ("data", "valid_data")}


def task(files: dict[str, str], **options: Any) -> TextToText:
    return TextToText(TextToTextOptions(**{**files, "vocabulary": 120, "batch_size": 8, **options}))


@pytest.fixture(scope="module")
def data(files: dict[str, str]) -> TextData[EncodedPairs]:
    return task(files).prepare()


def paired(data: TextData[EncodedPairs], pairs: list[Pair]) -> EncodedPairs:
    return EncodedPairs(pairs, data.tokenizer.pad_id, data.tokenizer.cls_id)


def built(spec: Spec, made: TextToText, data: TextData[EncodedPairs], registry: Registry) -> Model:
    changes = {**made.overrides(data), "model.regularisation.init_std": 0.3}
    return build(spec.replace(changes), seed=1, registry=registry).eval()


def test_a_pair_is_cut_and_keeps_its_special_tokens(
    files: dict[str, str], data: TextData[EncodedPairs]
) -> None:
    tokenizer, texts = data.tokenizer, [("cows and sheep", "geese and ropes")]
    source, target = (tuple(tokenizer.pieces(text)) for text in texts[0])
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    whole = task(files).encode(tokenizer, "train", texts)
    assert (whole.pairs, whole.cut) == ([((cls, *source, sep), (*target, sep))], 0)
    short = task(files, length=4, target_length=2).encode(tokenizer, "train", texts)
    assert (short.pairs, short.cut) == ([((cls, *source[:2], sep), (*target[:1], sep))], 1)


def test_a_batch_for_one_stack_and_for_two() -> None:
    pairs, no = EncodedPairs([Pair((2, 7, 3), (8, 9, 3)), Pair((2, 3), (3,))], 0, 2), IGNORED
    assert {name: values.tolist() for name, values in pairs.batch(np.arange(2)).items()} == {
        "source": [[2, 7, 3], [2, 3, 0]],
        "source_mask": [[True, True, True], [True, True, False]],
        "written": [[2, 8, 9], [2, 0, 0]],
        "written_mask": [[True, True, True], [True, False, False]],
        "written_labels": [[8, 9, 3], [3, no, no]],
        "joined": [[2, 7, 3, 8, 9, 3], [2, 3, 3, 0, 0, 0]],
        "joined_mask": [[True] * 6, [True] * 3 + [False] * 3],
        "joined_labels": [[no, no, 8, 9, 3, no], [no, 3, no, no, no, no]],
        "prefix": [3, 2],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_metrics_by_hand(
    kind: str, files: dict[str, str], data: TextData[EncodedPairs], registry: Registry
) -> None:
    made = task(files)
    model = built(KINDS[kind], made, data, registry)
    made.check(model, data)
    # Targets that a fresh model writes by itself, and in every other pair one token of them changed.
    prompts = [pair.source for pair in data.splits["valid"].pairs[:6]]
    targets = []
    for number, source in enumerate(prompts):
        inputs = {"input_ids": torch.tensor([source])}
        if kind == "two stacks":
            inputs["decoder_input_ids"] = torch.tensor([[data.tokenizer.cls_id]])
        if kind == "prefix":
            inputs["prefix_length"] = torch.tensor([len(source)])
        (text,) = model.generate(inputs, max_new=5)
        tokens = list(text.tokens)
        if number % 2:
            tokens[2] = (tokens[2] + 1) % data.tokenizer.vocabulary
        targets.append(tuple(tokens))
    own = TextData(data.tokenizer, {"valid": paired(data, list(map(Pair, prompts, targets)))})
    metrics = made.metrics(model, own, "valid")
    assert metrics["exact"] == 0.5
    assert 1 - 3 * 3 / (6 * 5) <= metrics["token_accuracy"] <= 1 - 3 / (6 * 5)
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]))
    # By hand: the log-probability of each target's tokens, one pair at a time.
    total = 0.0
    for pair in own.splits["valid"].pairs:
        batch = paired(data, [pair]).batch(np.arange(1))
        with torch.no_grad():
            total += float(made.loss(model, batch)) * len(pair.target)
        assert made.targets(batch) == {"loss": len(pair.target)}
    assert metrics["loss"] == pytest.approx(total / 30, rel=1e-4)


def test_mistakes(
    files: dict[str, str], data: TextData[EncodedPairs], tmp_path: Path, registry: Registry
) -> None:
    with pytest.raises(TaskError, match=r"either task\.data or task\.dataset"):
        TextToText(TextToTextOptions()).prepare()
    with pytest.raises(TaskError, match=r"row 1: unknown column 'german'. Known: "):
        task(files, target="german").prepare()
    alone = task({"data": files["data"]})
    with pytest.raises(TaskError, match=r"no 'test' split here, only train"):
        next(iter(alone.batches(alone.prepare(), "test", 0, 0)))
    with pytest.raises(TaskError, match="needs a model that generates"):
        alone.check(peirce.build(FOLNET, registry=registry), data)
