"""Files of trained entity and relation vectors: what `peirce kg embed` writes and the augmenter `kge` reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import asdict, fields, frozen

from peirce.errors import ModelFileError, TaskError
from peirce.files import replace_file, tensor_header

if TYPE_CHECKING:
    from torch import Tensor

Predictor = Literal["transe", "distmult", "complex"]
"""The link predictors of TEGA's Table 5."""
Optimizer = Literal["adagrad", "adam"]
"""What may train them."""
FORMAT = 1
_AGAIN = "write it again with `peirce kg embed`"


@frozen(kw_only=True)
class KgeFacts:
    """What a file says of its vectors.

    Args:
        model, graph, epochs, seed: what was trained, and how; see `EmbeddingOptions`.
        width: the numbers of a vector.
        vocabulary: how many tokens a model of the graph's queries has.
        first_entity, first_relation: the tokens of the first vectors; the others follow.
    """

    model: str
    graph: str
    width: int
    epochs: int
    seed: int
    vocabulary: int
    first_entity: int
    first_relation: int


def write_kge(
    path: Path, facts: KgeFacts, entities: Tensor, relations: Tensor, triples: Tensor | None = None
) -> None:
    """Write vectors, float32 [n, width], and what they were trained on, int32 [n, 3], whole or not at all.

    Raises:
        TaskError: the file cannot be written.
    """
    from safetensors.torch import save_file

    metadata = {"format": str(FORMAT), **{name: str(value) for name, value in asdict(facts).items()}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as fresh:
            tensors = {"entities": entities, "relations": relations, "triples": triples}
            save_file({k: v for k, v in tensors.items() if v is not None}, fresh, metadata=metadata)
    except OSError as error:
        raise TaskError(f"{path} cannot be written: {error.strerror or error}; choose another -o") from error


def read_kge(path: Path) -> tuple[KgeFacts, Tensor, Tensor]:
    """The inverse of `write_kge`.

    Raises:
        ModelFileError: the file is missing, damaged, foreign or newer.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ModelFileError(
            f"there is no file {path} of entity and relation vectors; write it with `peirce kg embed --graph GRAPH "
            f"--model MODEL -o {path}`, or give the augmenter 'kge' another `file`"
        )
    try:
        metadata = tensor_header(path).metadata
        version = int(metadata["format"])
        values: dict[str, Any] = {field.name: metadata[field.name] for field in fields(KgeFacts)}
        values |= {name: int(text) for name, text in values.items() if name not in ("model", "graph")}
        facts = KgeFacts(**values)
        with safe_open(path, framework="pt") as file:
            entities, relations = (file.get_tensor(name) for name in ("entities", "relations"))
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is not a file of vectors: {error}; {_AGAIN}") from error
    except (KeyError, ValueError) as error:
        raise ModelFileError(f"{path} lacks the description of its vectors ({error!r}); {_AGAIN}") from error
    if version > FORMAT:
        raise ModelFileError(f"{path} has format {version}, and this version reads {FORMAT}: upgrade peirce")
    for first, rows in ((facts.first_entity, entities), (facts.first_relation, relations)):
        if rows.dim() != 2 or rows.shape[1] != facts.width or not 0 <= first <= facts.vocabulary - len(rows):
            raise ModelFileError(f"{path}: its vectors do not match their description ({facts}); {_AGAIN}")
    return facts, entities, relations


def read_triples(path: Path) -> tuple[KgeFacts, Tensor]:
    """The triples that vectors were trained on, int32 [n, 3] of entity, relation, entity by number.

    Raises:
        ModelFileError: as `read_kge`, or the file is of a version that wrote no triples.
    """
    from safetensors import safe_open

    facts, _, _ = read_kge(path)
    with safe_open(path, framework="pt") as file:
        if "triples" not in file.keys():  # noqa: SIM118 - not a mapping
            raise ModelFileError(f"{path} lacks the triples that its vectors were trained on; {_AGAIN}")
        return facts, file.get_tensor("triples")
