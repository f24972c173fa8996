"""With the tokenizer of an imported model plain ONNX Runtime gives what Peirce and transformers give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from onnxruntime import InferenceSession
from tokenizers.processors import RobertaProcessing

import peirce
from peirce_export import export
from peirce_hf.checkpoints.importing import import_transformers
from peirce_hf.checks import example_model
from peirce_text import Tokenizer
from peirce_text.text.encoding import encode

WORDS = ["the cat sat on the mat", "the dog sat on the log"]
TEXTS = [
    ("the cat",),
    ("the cat", "a dog sat"),
    ("the mat " * 40,),
    ("the cat " * 30, "the log " * 30 + "dog"),
]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_an_imported_model_answers_alike_everywhere(kind: str, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    roberta = kind == "roberta"
    places = (
        {"max_position_embeddings": 33, "type_vocab_size": 1} if roberta else {"max_position_embeddings": 32}
    )
    published = example_model(kind, theirs, vocab_size=60, pad_token_id=0, **places)
    words = Tokenizer.train(WORDS, vocabulary=60, min_frequency=1)
    inner = tokenizers.Tokenizer.from_str(words.content.decode())
    if roberta:  # two separators between texts, and no token types
        inner.post_processor = RobertaProcessing(("[SEP]", words.sep_id), ("[CLS]", words.cls_id))
    inner.save(str(theirs / "tokenizer.json"))
    import_transformers(theirs, ours)
    export(ours, path=ours / "model.onnx")
    tokenizer = tokenizers.Tokenizer.from_file(str(ours / "assets" / "tokenizer.json"))
    plain = InferenceSession(ours / "model.onnx")
    dtypes: dict[str, Any] = {"tensor(int64)": np.int64, "tensor(bool)": np.bool_}
    names = ["input_ids", "token_type_ids", "attention_mask"]
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", model_input_names=names
    )
    known = Tokenizer.load(ours)
    with peirce.Session(ours / "model.onnx") as session:
        for texts in TEXTS:
            encoding = tokenizer.encode(*texts)
            arrays = {
                "input_ids": encoding.ids,
                "token_type_ids": encoding.type_ids,
                "attention_mask": encoding.attention_mask,
            }
            feeds = {
                each.name: np.array([arrays[each.name]], dtypes[each.type]) for each in plain.get_inputs()
            }
            (scores,) = plain.run(["mlm_logits"], feeds)
            encoded = encode(known, [[text] for text in texts], known.length or 0).arrays(np.arange(1))
            asked = session.run({name: encoded[name] for name in feeds}, ["mlm_logits"])
            assert (scores == asked["mlm_logits"]).all()
            given = fast(*texts, truncation=True, max_length=32, return_tensors="pt")
            assert given["input_ids"].tolist() == [encoding.ids]
            with torch.no_grad():
                found = published(**given)
                wanted = found["logits" if roberta else "prediction_logits"]
            assert scores == pytest.approx(wanted.numpy(), abs=1e-4)
