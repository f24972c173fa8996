"""Logical relations as initial binary atoms."""

from __future__ import annotations

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from peirce.parts import Dims, NoOptions, Tokens
from peirce_logic.detector import Detector
from peirce_logic.logic_relations import AFTER, LogicRelations
from peirce_logic.relations import LOGICAL_ID_COUNT, LOGICAL_IDS

DIMS = Dims(layers=1, unary=6, binary=3, heads=1, head_size=6, feedforward_unary=1, vocabulary=9)
TEXTS = [
    "(S (NP We) (VP stay (SBAR if (S (NP it) (VP rains or (VP snows))))))",
    "(S (NP They) (VP did n't (VP come)))",
]


def given(ids: torch.Tensor) -> Tokens:
    return Tokens({"logical_relations": ids}, None, torch.arange(ids.shape[2]).unsqueeze(0), ids.shape[2])


def test_keyword_to_alpha_and_alpha_to_beta_with_their_converses() -> None:
    assert len(AFTER) == 10 * 2 + 2
    torch.manual_seed(0)
    position = LogicRelations(NoOptions(), DIMS).double()
    ids = torch.randint(LOGICAL_ID_COUNT, (2, 3, 5))
    ids[:, 2] = torch.tensor([LOGICAL_IDS["causal", r] for r in ("alpha", "key", "beta", "alpha", "key")])
    rows = dict(zip(AFTER, range(len(AFTER)), strict=True))
    wanted = torch.zeros(2, 5, 5, 3, dtype=torch.float64)
    for b, x, y in np.ndindex(2, 5, 5):
        for of_x, of_y in zip(ids[b, :, x].tolist(), ids[b, :, y].tolist(), strict=True):
            if AFTER.get(of_x) == of_y:
                wanted[b, x, y] += position.pairs.weight[rows[of_x]]
            if AFTER.get(of_y) == of_x:
                wanted[b, x, y] += position.converse_pairs.weight[rows[of_y]]
    assert wanted.any()
    torch.testing.assert_close(position.binary(given(ids)), wanted)


def test_ids_of_detected_relations() -> None:
    tokenizer = Tokenizer(WordLevel({"?": 0}, "?"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.enable_padding(length=7)
    encodings = tokenizer.encode_batch(["We stay if it rains or snows", "They did n't come"])
    ids = Detector("brackets").relation_ids([[text] for text in TEXTS], encodings)
    names = {place: role for (_, role), place in LOGICAL_IDS.items()}
    assert [[[names.get(each, "") for each in row] for row in rows] for rows in ids.tolist()] == [
        [["", "alpha", "key", "beta", "beta", "beta", "beta"], ["", "", "", "", "alpha", "key", "beta"]],
        [["", "alpha", "key", "key", "key", "alpha", ""], [""] * 7],
    ]
