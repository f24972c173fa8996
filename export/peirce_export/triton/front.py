"""What a pipeline at a server knows of the models behind it: `front.json`, beside its `model.py`."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen
from peirce.errors import ModelFileError
from peirce.files import read_json, write_json

from peirce_export.metadata import Metadata

FRONT, GRAPH = "front.json", "model.onnx"
FORMAT = 1
"""The version of the file; a newer one is refused."""


@frozen(kw_only=True)
class Front:
    """A pipeline and the models that it asks, at its own version.

    Args:
        pipeline: its name.
        model: the name of the model.
        metadata: of the model's file.
        step: the same of the model that adds a token, of one that generates.
        batched: whether the server batches the models' requests.
    """

    pipeline: str
    model: str
    metadata: Metadata
    step: tuple[str, Metadata] | None = None
    batched: bool = True

    def write(self, path: Path) -> None:
        """Write the file."""
        models = [(self.model, self.metadata), *([self.step] if self.step else [])]
        write_json(
            path,
            {
                "format": FORMAT,
                "pipeline": self.pipeline,
                "batched": self.batched,
                "models": [{"name": name, "metadata": data.to_properties()} for name, data in models],
            },
        )

    @classmethod
    def read(cls, path: Path) -> Front:
        """The inverse of `write`.

        Raises:
            ModelFileError: the file is missing, damaged, or of a newer Peirce.
        """
        try:
            content = read_json(path)
            if content["format"] != FORMAT:
                raise ModelFileError(
                    f"{path} is of a newer Peirce; upgrade peirce, or export the model again"
                )
            first, *steps = [
                (each["name"], Metadata.from_properties(each["metadata"], str(path)))
                for each in content["models"]
            ]
            return cls(
                pipeline=content.get("pipeline") or content["answerer"],
                model=first[0],
                metadata=first[1],
                step=steps[0] if steps else None,
                batched=content.get("batched", True),
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelFileError(f"{path} is damaged or missing ({error}); export the model again") from error
