"""What a pretraining has read, kept beside the model as `data.json`, so that it is resumed on the same text only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.errors import TaskError
from peirce.files import read_json, write_json

FILE = "data.json"
SCHEMA = "peirce.pretraining-data/1"


@frozen
class Record:
    """The record's file, and whether it must be kept to.

    Args:
        path: the file.
        holds: whether what is read must be what the file says, as when a training is resumed.
    """

    path: Path
    holds: bool = False

    def write_or_compare(self, tokenizer: str, facts: Mapping[str, Any]) -> None:
        """Write the record of what was read, or compare it with the one that is there.

        Args:
            tokenizer: its digest.
            facts: of each split its shards, with the digest of their tokens.

        Raises:
            TaskError: the tokenizer or a shard is not what it was, or a shard is missing, or new.
        """
        if self.holds and self.path.is_file():
            before = self._read()
            if tokenizer != before.get("tokenizer", tokenizer):
                raise TaskError(
                    f"the tokenizer is not the one that this training began with ({self.path}); use that one, or "
                    "start again in another directory"
                )
            differing = [
                f"{split}: {text}"
                for split in facts
                for text in _differences(facts[split], before.get(split, {}))
            ]
            if differing:
                raise TaskError(
                    f"the text is not what this training began with ({self.path}): {'; '.join(differing)}. Restore the "
                    "files, or start again in another directory"
                )
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path, {"schema": SCHEMA, "tokenizer": tokenizer, **facts})

    def _read(self) -> Mapping[str, Any]:
        try:
            record = read_json(self.path)
            if not isinstance(record, dict) or record.get("schema") != SCHEMA:
                raise ValueError("it does not record the text of a pretraining")
        except (OSError, ValueError) as error:
            raise TaskError(f"{self.path} cannot be read: {error}; remove it to resume without it") from error
        return record


def _differences(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """What has become of the shards of a split."""
    ours = {shard["shard"]: shard["sha256"] for shard in now["shards"]}
    theirs = {shard["shard"]: shard["sha256"] for shard in before.get("shards", ())}
    changed = [f"{name} has changed" for name in ours if name in theirs and ours[name] != theirs[name]]
    missing = [f"{name} is missing or left out" for name in theirs if name not in ours]
    new = [f"{name} is new" for name in ours if name not in theirs]
    moved = [] if changed or missing or new or list(ours) == list(theirs) else ["their order has changed"]
    return [*changed, *missing, *new, *moved]
