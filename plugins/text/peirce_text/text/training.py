"""Training a tokenizer on shards: read twice, with a progress bar, and written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from peirce.files import explain_disk_errors, hold_lock, write_whole
from peirce_text.progress import ShardProgress
from peirce_text.text.shards import Shard, ShardError
from peirce_text.text.tokenizer import Tokenizer


@frozen(eq=False)
class _Texts:
    """The texts of shards; each iteration reads them anew."""

    shards: Sequence[Shard]
    column: str
    skip: bool
    progress: ShardProgress

    def __iter__(self) -> Iterator[str]:
        for shard in self.shards:
            self.progress.start(shard.path.name)
            try:
                for text in shard.texts(self.column):
                    yield text
                    self.progress.advance(len(text))
            except ShardError:
                if not self.skip:
                    raise
            self.progress.done()


def train_tokenizer(
    shards: Sequence[Shard],
    path: Path,
    *,
    vocabulary: int = 32768,
    cased: bool = False,
    column: str = "text",
    skip: bool = False,
) -> Tokenizer:
    """Train a WordPiece tokenizer on shards and write it.

    Args:
        shards: what it is trained on.
        path: where its JSON goes.
        vocabulary: how many entries.
        cased: whether capitals and accents stay.
        column: which column of a row holds the text.
        skip: whether the rest of a damaged shard is passed over, rather than refused.

    Raises:
        TaskError: a shard is damaged, or there is no text.
        BusyError: another process trains one there.
        WriteError: the disk takes no more.
    """
    with explain_disk_errors(str(path)), hold_lock(path, folder=False):
        with ShardProgress(2 * len(shards), "reading", "characters") as progress:
            texts = _Texts(shards, column, skip, progress)
            tokenizer = Tokenizer.train(texts, vocabulary, lowercase=not cased)
        write_whole(path, tokenizer.content)
    return tokenizer
