"""How a saved model reads texts: the settings that a task keeps beside it, and rows of ids with them; without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.errors import ModelFileError
from peirce.files import parse_json, parse_toml, read_bytes
from peirce.model import ASSETS, SPEC, WEIGHTS, saved_files
from peirce_logic.detection.algorithm import Relation
from peirce_logic.detection.lexicon import lexicon_file
from peirce_logic.detector import Detector
from peirce_logic.ids import row_ids, row_relations, stack_rows
from peirce_text import Tokenizer, pad

TOKENIZER, SETTINGS = "tokenizer.json", "logic.json"
"""What a model keeps: its tokenizer, and how it reads."""
LEXICON, SENSES = "logic-lexicon.toml", "logic-senses.safetensors"
"""What it keeps where the task has them: keywords of its own, and classifiers of their senses."""


def assets_of(tokenizer: Tokenizer, options: Any) -> dict[str, bytes]:
    """The assets of a model.

    Args:
        tokenizer: its tokenizer.
        options: those of a task: length, depth, parser, lexicon, senses, and relations where it has them.
    """
    settings = {"length": options.length, "depth": options.depth, "parser": options.parser}
    if getattr(options, "relations", False):
        settings["relations"] = True
    found = {TOKENIZER: tokenizer.content, SETTINGS: (json.dumps(settings, indent=1) + "\n").encode()}
    if options.parsed and options.lexicon:
        found[LEXICON] = read_bytes(lexicon_file(options.lexicon), text=True)
    if options.parsed and options.senses:
        found[SENSES] = read_bytes(options.senses)
    return found


def start_token(folder: Path) -> int | None:
    """The token that a saved model's pretrained decoder starts with; None where its spec names none.

    Raises:
        ModelFileError: the spec is missing or damaged.
    """
    with saved_files(folder, without=(WEIGHTS,)) as files:
        try:
            return start_in(parse_toml(files.text(SPEC))["model"].get("options", {}))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelFileError(f"{folder / SPEC} is not a spec: {error!r}") from error


def start_in(options: Mapping[str, Any]) -> int | None:
    """The token that the options of an architecture say its decoder starts with; None where they name none."""
    config = options.get("config", {})
    start = config.get("decoder_start_token_id") if isinstance(config, Mapping) else None
    return start if isinstance(start, int) else None


class TextRow(NamedTuple):
    """A row of ids.

    Args:
        ids: int32 [x].
        types: token types, int8 [x].
        levels: `logical_ids`, int8 [K, x]; no levels where the model reads none.
        relations: `logical_relations`, int8 [relations, x]; None where it reads none.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int8]
    levels: NDArray[np.int8]
    relations: NDArray[np.int8] | None


def row_of(encoding: Any, found: Sequence[Sequence[Relation]], depth: int, joined: bool) -> TextRow:
    """One row.

    Args:
        encoding: its tokens.
        found: the relations of each of its texts; of none where the model reads none.
        depth: K, the levels of `logical_ids`.
        joined: whether it has `logical_relations`.
    """
    return TextRow(
        ids=np.array(encoding.ids, np.int32),
        types=np.array(encoding.types, np.int8),
        levels=row_ids(found, encoding, depth).astype(np.int8),
        relations=row_relations(found, encoding).astype(np.int8) if joined else None,
    )


def batch_of(rows: Sequence[TextRow], pad_id: int) -> dict[str, NDArray[Any]]:
    """Rows as a batch, as long as the longest.

    Returns:
        input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; and what rows have of logical_ids: int64
        [b, K, x], and logical_relations: int64 [b, relations, x], one relation at least.
    """
    ids, real = pad([row.ids for row in rows], pad_id)
    types, _ = pad([row.types for row in rows], 0)
    batch = {"input_ids": ids, "token_type_ids": types, "attention_mask": real}
    if len(rows[0].levels):
        batch["logical_ids"] = stack_rows([row.levels for row in rows])
    if relations := [row.relations for row in rows if row.relations is not None]:
        batch["logical_relations"] = stack_rows(relations)
    return batch


@frozen
class Reader:
    """Texts as a saved model reads them.

    Args:
        tokenizer: its tokenizer.
        length: the most tokens of a row.
        depth: the levels of `logical_ids`; 0 for none.
        detector: what finds relations; None for a model that reads none.
    """

    tokenizer: Tokenizer
    length: int
    depth: int
    detector: Detector | None

    @classmethod
    def of(cls, folder: Path) -> Reader:
        """The reader of a saved model.

        Raises:
            ModelFileError: a file is missing or damaged. TaskError: the parser is not installed.
        """
        with saved_files(folder, without=(WEIGHTS,)) as files:
            where = folder / ASSETS / SETTINGS
            try:
                settings = parse_json(files.text(f"{ASSETS}/{SETTINGS}"))
                length, depth, parser = (
                    int(settings["length"]),
                    int(settings["depth"]),
                    str(settings["parser"]),
                )
                joined = bool(settings.get("relations", False))
            except (ValueError, LookupError, TypeError) as error:
                raise ModelFileError(
                    f"{where} does not say how the model reads: {error!r}; restore it from where the model was trained"
                ) from error
            content = files.read(f"{ASSETS}/{TOKENIZER}")
            tokenizer = Tokenizer.from_content(content, str(folder / ASSETS / TOKENIZER))
            lexicon, senses = (
                folder / ASSETS / name if name in files.assets else None for name in (LEXICON, SENSES)
            )
            detector = Detector(parser, lexicon, senses=senses) if depth or joined else None
            return cls(tokenizer, length, depth, detector)

    def rows(
        self, texts: Sequence[Sequence[str]], encodings: Sequence[Any], known: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """A batch.

        Args:
            texts: of each row: one, or those of a pair.
            encodings: the tokens of each row.
            known: the model's inputs.

        Returns:
            Those of input_ids, token_type_ids int64 [b, x], attention_mask bool [b, x], logical_ids int64 [b, K, x] and
            logical_relations int64 [b, relations, x] that the model reads.
        """
        found = self.detector.relations(text for row in texts for text in row) if self.detector else {}
        rows = [
            row_of(encoding, [found[text] for text in row_texts] if found else [], self.depth, True)
            for row_texts, encoding in zip(texts, encodings, strict=True)
        ]
        batch = batch_of(rows, self.tokenizer.pad_id)
        return {name: array for name, array in batch.items() if name in known}
