"""`Trainer` on a tiny model: the loss falls, and an interrupted run goes on as if it had not been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_specs import PAPER_CJOIN
from thorough import often
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)

import peirce
from peirce.spec import Spec
from peirce_hf import (
    PeirceConfig,
    PeirceForConditionalGeneration,
    PeirceForMaskedLM,
    PeirceForSequenceClassification,
    tokenizer_for,
)
from peirce_text import Tokenizer

STEPS = 30


def rows(vocabulary: int) -> list[dict[str, Any]]:
    """Whether the first token is one of the upper half."""
    tokens = torch.randint(5, vocabulary, (64, 8), generator=torch.Generator().manual_seed(0))
    return [
        {
            "input_ids": row,
            "attention_mask": torch.ones(8, dtype=torch.int64),
            "labels": int(row[0] > vocabulary // 2),
        }
        for row in tokens
    ]


def arguments(folder: Path, **changes: Any) -> TrainingArguments:
    settings = {
        "max_steps": STEPS, "per_device_train_batch_size": 16, "learning_rate": 3e-3, "logging_steps": 10,
        "save_steps": STEPS // 2, "report_to": [], "use_cpu": True, "seed": 0, "disable_tqdm": True,
    }  # fmt: skip
    return TrainingArguments(str(folder), **{**settings, **changes})


def losses(trainer: Trainer) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_a_classifier_learns_and_resumes(spec: Spec, tmp_path: Path) -> None:
    def trainer() -> Trainer:
        torch.manual_seed(1)
        model = PeirceForSequenceClassification(PeirceConfig(spec=spec))
        return Trainer(model, arguments(tmp_path), train_dataset=data, eval_dataset=data)  # type: ignore[arg-type]

    assert spec.input.vocabulary is not None
    data = rows(spec.input.vocabulary)
    whole = trainer()
    whole.train()
    assert losses(whole)[-1] < 0.6 * losses(whole)[0]
    assert whole.evaluate()["eval_loss"] < losses(whole)[-1]
    resumed = trainer()
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{STEPS // 2}"))
    for name, value in resumed.model.state_dict().items():
        assert torch.equal(value, whole.model.state_dict()[name]), name
    # What was trained is a Peirce model.
    model = (
        PeirceForSequenceClassification.from_pretrained(tmp_path / f"checkpoint-{STEPS}").to_peirce().eval()
    )
    model.save(tmp_path / "model")
    loaded = peirce.load(tmp_path / "model").eval()
    logits = loaded(input_ids=torch.stack([row["input_ids"] for row in data]))["classification_logits"]
    right = logits.argmax(-1) == torch.tensor([row["labels"] for row in data])
    assert right.float().mean() > 0.9


@pytest.mark.parametrize("accumulation", often([1, 4], [4]))
def test_a_language_model_learns_from_texts(
    accumulation: int, spec: Spec, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """With the library's own collator; accumulated batches have the loss of one batch of their size."""
    config = PeirceConfig(spec=spec)
    hf = tokenizer_for(tokenizer, config)
    data = [hf(text) for text in ("the cat sat on the mat", "the dog sat on the log") * 32]
    torch.manual_seed(0)
    trainer = Trainer(
        PeirceForMaskedLM(config),
        arguments(
            tmp_path, per_device_train_batch_size=16 // accumulation, gradient_accumulation_steps=accumulation,
            logging_steps=15,
        ),
        train_dataset=data,  # type: ignore[arg-type]
        data_collator=DataCollatorForLanguageModeling(hf, mlm_probability=0.3),
    )  # fmt: skip
    assert trainer.model_accepts_loss_kwargs is False
    trainer.train()
    first, last = losses(trainer)
    assert 1.0 < first < 4.0  # near ln of the vocabulary, however many batches are added up
    assert last < 0.8 * first


def test_a_collator_for_two_sequences_shifts_and_pads_the_target(spec: Spec, tokenizer: Tokenizer) -> None:
    two = {
        "model.architecture": "folnet_encoder_decoder",
        "model.heads": [{"use": "causal_lm"}],
        **PAPER_CJOIN,
    }
    model = PeirceForConditionalGeneration(PeirceConfig(spec=spec.replace(two), decoder_start_token_id=2))
    hf = tokenizer_for(tokenizer, model.config)
    pairs = [("the cat", "a dog sat"), ("the dog", "a cat")]
    data = [{**hf(source), "labels": hf(target)["input_ids"][1:]} for source, target in pairs]
    batch = DataCollatorForSeq2Seq(hf, model=model)(data)
    given = batch["decoder_input_ids"].tolist()
    assert given == [[2, *data[0]["labels"][:-1]], [2, *data[1]["labels"], 0][: len(given[0])]]
    assert model(**batch).loss.isfinite()
