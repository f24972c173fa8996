"""Linear classifiers of senses, one a keyword, and the file that holds them: safetensors, nothing that is executed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.errors import ModelFileError, TaskError
from peirce.files import checks_digests, digest_of, parse_integer, parse_json, tensor_header, write_whole
from peirce_logic.detection.lexicon import Keyword, Match
from peirce_logic.detection.tree_senses import sense_by_tree
from peirce_logic.detection.trees import Tree
from peirce_logic.senses.sentences import NONE
from peirce_logic.senses.vectors import Vectors

FORMAT = 1
_FILE_DIGEST = "own_digest"
"""The key of the digest of all else in the file, in its header."""
_AGAIN = "write it again with `peirce logic senses train`"


@frozen(eq=False)
class Classifier:
    """The sense with the largest score, `weight @ vector + bias`.

    Args:
        relations: the sense of each row; `none` for a keyword that shows no relation.
        weight: float32 [senses, width].
        bias: float32 [senses].
    """

    relations: tuple[str, ...]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def of(self, vectors: NDArray[np.float32]) -> list[str]:
        """The senses of keywords.

        Args:
            vectors: float32 [n, width].
        """
        best = (vectors @ self.weight.T + self.bias).argmax(1)
        return [self.relations[i] for i in best]


@frozen(eq=False, slots=False)
class Senses:
    """Chooses the sense of keywords that have several, by the sentence that they stand in.

    Args:
        encoder: what the vectors come from, a folder or a name on the hub.
        digest: of its weights.
        classifiers: by keyword.
    """

    encoder: str
    digest: str
    classifiers: Mapping[str, Classifier]

    @cached_property
    def vectors(self) -> Vectors:
        """The encoder.

        Raises:
            TaskError: it cannot be loaded, or its weights are not those that the classifiers were trained with.
        """
        vectors = Vectors(self.encoder)
        if vectors.digest != self.digest:
            raise TaskError(
                f"the encoder {self.encoder!r} has other weights than those that the senses were trained with; put "
                "them back, or train the senses again"
            )
        return vectors

    def choose(self, trees: Sequence[Tree], sentence: int, match: Match) -> Keyword | None:
        """The sense of a keyword, as `detect` asks for it; None where it shows no relation.

        A keyword without a classifier, or whose lexicon lacks the sense that is found, has that of `sense_by_tree`.
        """
        tree, usual = trees[sentence], sense_by_tree(trees, sentence, match)
        tokens, first = tree.tokens[match.start : match.stop], tree.tokens[0].start
        classifier = self.classifiers.get(" ".join(token.text for token in tokens).lower())
        if classifier is None:
            return usual
        place = (tokens[0].start - first, tokens[-1].end - first)
        (relation,) = classifier.of(self.vectors.of([sentence_text(tree)], [place]))
        if relation == NONE:
            return None
        return next((sense for sense in match.senses if sense.relation == relation), usual)

    def save(self, path: Path) -> None:
        """Write the classifiers, whole or not at all.

        Raises:
            OSError: the file cannot be written.
        """
        from safetensors.numpy import save

        metadata = {
            "format": str(FORMAT),
            "encoder": self.encoder,
            "digest": self.digest,
            "relations": json.dumps({word: each.relations for word, each in self.classifiers.items()}),
        }
        arrays: dict[str, NDArray[Any]] = {
            f"{word}.{name}": np.ascontiguousarray(getattr(each, name))
            for word, each in self.classifiers.items()
            for name in ("weight", "bias")
        }
        metadata[_FILE_DIGEST] = _digest(arrays, metadata)
        write_whole(path, save(arrays, metadata))


def read_senses(path: str | os.PathLike[str]) -> tuple[Senses, str]:
    """The inverse of `Senses.save`.

    Returns:
        The classifiers, and the digest of the file.

    Raises:
        ModelFileError: the file is missing, damaged, foreign or newer.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = Path(path)
    if not file.is_file():
        raise ModelFileError(
            f"there is no file {file} of senses; write it with `peirce logic senses train --encoder NAME -o {file}`"
        )
    try:
        metadata, arrays = tensor_header(file).metadata, load_file(file)
        if (
            _FILE_DIGEST in metadata
            and checks_digests()
            and metadata[_FILE_DIGEST] != _digest(arrays, metadata)
        ):
            raise ValueError("its digest does not match its content")
        if (version := parse_integer(metadata.get("format", ""))) is None or "relations" not in metadata:
            raise ValueError("its header names no senses")
        encoder, digest = metadata["encoder"], metadata["digest"]
        relations = parse_json(metadata["relations"])
        classifiers = {
            str(word): Classifier(tuple(map(str, names)), arrays[f"{word}.weight"], arrays[f"{word}.bias"])
            for word, names in relations.items()
        }
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{file} is not a file of senses: {error}; {_AGAIN}") from error
    if version > FORMAT:
        raise ModelFileError(f"{file} has format {version}, and this version reads {FORMAT}: upgrade peirce")
    return Senses(encoder, digest, classifiers), digest_of(file)


def _digest(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    """The digest of what a file of senses holds, but for the digest itself."""
    each = {name: [str(a.dtype), a.shape, digest_of(a.tobytes())] for name, a in arrays.items()}
    return digest_of({**{key: text for key, text in metadata.items() if key != _FILE_DIGEST}, "arrays": each})


def sentence_text(tree: Tree) -> str:
    """A sentence as its document has it, its tokens at their places, with spaces between them."""
    first, text = tree.tokens[0].start, ""
    for token in tree.tokens:
        place = token.start - first
        text = text[:place].ljust(place) + token.text
    return text
