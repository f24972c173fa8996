"""Tokenizers of `transformers` that give what Peirce's own tokenizer gives."""

from __future__ import annotations

from pathlib import Path

import tokenizers
from transformers import PreTrainedTokenizerFast

from peirce.errors import InputError
from peirce_hf.config import PeirceConfig
from peirce_text import Tokenizer


def tokenizer_for(
    tokenizer: Tokenizer | str | Path | bytes, config: PeirceConfig | None = None
) -> PreTrainedTokenizerFast:
    """A tokenizer of `transformers` with the ids and token types of Peirce's, special tokens included.

    Args:
        tokenizer: a tokenizer; or a file or folder that `Tokenizer.load` reads, such as a saved model that has one
            among its assets; or the bytes of a tokenizers JSON.
        config: the model's configuration: its longest input is the tokenizer's, and a model without token types gets
            none.

    Raises:
        TaskError: there is no tokenizer, or it cannot be read.
        InputError: it has more tokens than the model.
    """
    if isinstance(tokenizer, bytes):
        tokenizer = Tokenizer.from_content(tokenizer)
    elif not isinstance(tokenizer, Tokenizer):
        tokenizer = Tokenizer.load(tokenizer)
    if config is not None and tokenizer.vocabulary > config.vocab_size:
        raise InputError(
            f"the tokenizer has {tokenizer.vocabulary} tokens and the model {config.vocab_size}; give the model's own "
            "tokenizer, or call model.resize_token_embeddings first"
        )
    first, last = (tokenizer.token(id) for id in (tokenizer.cls_id, tokenizer.sep_id))
    unknown = tokenizer.unknown_id
    types = config is None or config.type_vocab_size > 0
    names = ["input_ids", *(["token_type_ids"] if types else []), "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(tokenizer.content.decode()),
        pad_token=tokenizer.token(tokenizer.pad_id),
        cls_token=first,
        sep_token=last,
        mask_token=tokenizer.token(tokenizer.mask_id),
        unk_token=None if unknown is None else tokenizer.token(unknown),
        model_input_names=names,
        **({} if config is None else {"model_max_length": config.max_position_embeddings}),
    )
