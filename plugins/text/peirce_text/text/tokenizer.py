"""Tokenizers: a trained WordPiece one, any `tokenizers` JSON, or the vocabulary of a published BERT.

`Tokenizer` puts one text or a pair between special tokens, with token types and with the offsets of every token in the
text it comes from. It is saved with a model as `assets/tokenizer.json`, one file with which the package `tokenizers`
frames, cuts and pads texts alike.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from attrs import frozen

from peirce.errors import TaskError
from peirce.files import read_bytes, read_json

if TYPE_CHECKING:
    import tokenizers

Shorten = Literal["longest", "first", "second", "middle"]
"""Which text of a pair loses its end when the two are too long; for `middle`, the first loses its middle."""

FILE, VOCABULARY, SETTINGS = "tokenizer.json", "vocab.txt", "tokenizer_config.json"
"""What a folder of a tokenizer may hold: a `tokenizers` JSON, a BERT vocabulary, and whether that one lowers case."""

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The special tokens of a trained tokenizer, in the order of their ids, from 0."""
_NAMES = {
    "pad": ("[PAD]", "<pad>"),
    "unknown": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<s>", "<cls>"),
    "sep": ("[SEP]", "</s>", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}
_STRATEGIES: Mapping[str, Shorten] = {
    "longest_first": "longest",
    "only_first": "first",
    "only_second": "second",
}
"""What the package `tokenizers` calls the ways to shorten; it knows no other."""
_CONTINUES = "##"
_ALPHABET = 1000
"""How many characters a trained vocabulary has at most; BERT's own limit."""


@frozen
class Encoding:
    """One text, or a pair, as tokens.

    Args:
        ids: the token ids, special tokens included, no padding.
        types: token types, of a pair as its tokenizer says: BERT's have 0 up to and with the first separator, 1 after
            it; RoBERTa's have 0.
        offsets: of each token, where it starts and ends in its own text, in characters; (0, 0) for special tokens.
        sequence_ids: which text a token belongs to, 0 or 1; None for special tokens.
    """

    ids: tuple[int, ...]
    types: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    sequence_ids: tuple[int | None, ...]

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """Texts to token ids and back.

    Make one with `load`, `from_content` or `train`.

    Args:
        inner: the tokenizer of the package `tokenizers`.
        where: what it came from, for errors.

    Attributes:
        pad_id: what fills a row that is shorter than others.
        cls_id: what stands first.
        sep_id: what stands after each text.
        between: what stands between two texts: the separator, or two as in RoBERTa.
        second_type: the token type of the second text.
        length: the most tokens that its file cuts a text to, which is what its model was trained with; None for none.
        shorten: which text of a pair that file cuts.
        mask_id: what stands in place of a token to be guessed.
        unknown_id: what stands for characters that the vocabulary lacks; None where it lacks none.

    Raises:
        TaskError: it lacks a special token that a text is put between, padded or masked with.
    """

    def __init__(self, inner: tokenizers.Tokenizer, where: str = "the tokenizer") -> None:
        cuts = inner.truncation or {}
        self.length: int | None = cuts.get("max_length")
        self.shorten: Shorten = _STRATEGIES[cuts.get("strategy", "longest_first")]
        inner.no_truncation()
        inner.no_padding()
        self._inner = inner
        found = {
            role: next((id for name in names if (id := inner.token_to_id(name)) is not None), None)
            for role, names in _NAMES.items()
        }
        missing = [
            " or ".join(_NAMES[role]) for role, id in found.items() if id is None and role != "unknown"
        ]
        if missing:
            raise TaskError(
                f"{where} has no special token {', nor '.join(missing)}, which texts need; give a tokenizer like "
                "BERT's, or train one with `peirce tokenizer train`"
            )
        self._ids = found
        self.pad_id, self.cls_id, self.sep_id, self.mask_id = (
            id for role, id in found.items() if id is not None and role != "unknown"
        )
        self.unknown_id = found["unknown"]
        if not self._is_framed():
            self._frame()
        pair = inner.encode("", "")
        self.between, self.second_type = tuple(pair.ids[1:-1]), int(pair.type_ids[-1])

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a tokenizer.

        Args:
            path: a `tokenizers` JSON; a BERT vocabulary `*.txt`, one token a line; or a folder that holds
                `tokenizer.json` or `vocab.txt`, itself or below `assets/`, as a saved model does. A vocabulary lowers
                case as the `tokenizer_config.json` beside it says (`do_lower_case`), else if it has no capitals.

        Raises:
            TaskError: there is no tokenizer, or it cannot be read.
        """
        path = Path(path)
        if path.is_dir():
            names = (FILE, f"assets/{FILE}", VOCABULARY, f"assets/{VOCABULARY}")
            found = next((path / name for name in names if (path / name).is_file()), None)
            if found is None:
                raise TaskError(
                    f"{path} holds no tokenizer: neither {FILE} nor {VOCABULARY}; train one with `peirce tokenizer "
                    "train`"
                )
            path = found
        try:
            content = read_bytes(path, text=True)
        except OSError as error:
            raise TaskError(
                f"tokenizer {path} cannot be read: {error}; give a tokenizers JSON, a BERT vocab.txt, or a folder "
                "with one of them"
            ) from error
        if path.suffix == ".txt":
            pieces = _pieces(content, path)
            return cls(_wordpiece(pieces, lowercase=_lowercases(path, pieces)), str(path))
        return cls.from_content(content, str(path))

    @classmethod
    def from_content(cls, content: bytes, where: str = "tokenizer.json") -> Tokenizer:
        """A tokenizer from the bytes of its JSON.

        Raises:
            TaskError: they are not a tokenizer.
        """
        import tokenizers

        try:
            inner = tokenizers.Tokenizer.from_str(content.decode())
        except Exception as error:  # the library raises bare Exceptions
            raise TaskError(
                f"{where} is not a tokenizer of the package tokenizers: {error}; train one with `peirce "
                "tokenizer train`"
            ) from error
        return cls(inner, where)

    @classmethod
    def of_symbols(cls, symbols: Sequence[str]) -> Tokenizer:
        """A tokenizer whose tokens are single characters, with special tokens among the symbols; none is trained."""
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers

        inner = Tokenizer(models.WordLevel({sign: i for i, sign in enumerate(symbols)}, unk_token="[UNK]"))
        inner.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
        inner.add_special_tokens([sign for sign in symbols if sign in SPECIALS])
        return cls(inner)

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary: int = 32768, lowercase: bool = True, min_frequency: int = 2
    ) -> Tokenizer:
        """Train a WordPiece tokenizer of BERT's kind; the same texts give the same tokenizer, to the bit.

        Args:
            texts: what to train on. They are read twice, so that all of an iterator's are kept in memory.
            vocabulary: how many entries, special tokens and characters included; fewer if the texts hold no more.
            lowercase: lower case and strip accents, as BERT's uncased vocabulary does.
            min_frequency: how often two pieces must meet to be joined.

        Raises:
            TaskError: there is no text, or the vocabulary has no room for its characters.
        """
        from tokenizers import trainers

        texts = list(texts) if iter(texts) is texts else texts
        alphabet, continuing = _characters(map(replace_surrogates, texts), lowercase)
        if not alphabet:
            raise TaskError("there is no text to train a tokenizer on: the files hold only white space")
        # The library numbers the continuing characters as its hash table happens to give them, and ties
        # are broken by number. As special tokens they have an order; the tokenizer below has them as pieces.
        first = [*SPECIALS, *(_CONTINUES + character for character in continuing)]
        least = len(first) + len(alphabet)
        if vocabulary < least:
            raise TaskError(
                f"a vocabulary of {vocabulary} has no room for the {least} special tokens and characters of these "
                f"texts; give at least {least}"
            )
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocabulary,
            min_frequency=min_frequency,
            special_tokens=first,
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            continuing_subword_prefix=_CONTINUES,
            show_progress=False,
        )
        inner = _wordpiece(SPECIALS, lowercase=lowercase)
        inner.train_from_iterator(map(replace_surrogates, texts), trainer)
        ids = inner.get_vocab()
        return cls(_wordpiece(sorted(ids, key=ids.__getitem__), lowercase=lowercase))

    @property
    def content(self) -> bytes:
        """The tokenizer as the JSON that `load` and the package `tokenizers` read."""
        return _content(self._inner)

    def saved_content(self, length: int, shorten: Shorten = "longest") -> bytes:
        """The tokenizer's JSON for a model: with it the package `tokenizers` also cuts and pads texts as Peirce does.

        Args:
            length: the most tokens of a text, or of a pair, special tokens included.
            shorten: which text of a pair is cut. For `middle`, which that package does not know, none is.
        """
        inner = self._copy()
        strategy = {ours: theirs for theirs, ours in _STRATEGIES.items()}.get(shorten)
        if strategy is not None:
            inner.enable_truncation(length, strategy=strategy)
        inner.enable_padding(pad_id=self.pad_id, pad_token=str(self.token(self.pad_id)))
        return _content(inner)

    def prompt_content(self) -> bytes:
        """The tokenizer's JSON for a model that goes on with a text: after it no special token stands."""
        from tokenizers.processors import TemplateProcessing

        inner, first = self._copy(), str(self.token(self.cls_id))
        inner.post_processor = TemplateProcessing(f"{first} $A", special_tokens=[(first, self.cls_id)])
        inner.enable_padding(pad_id=self.pad_id, pad_token=str(self.token(self.pad_id)))
        return _content(inner)

    def _copy(self) -> tokenizers.Tokenizer:
        return self._inner.from_str(self._inner.to_str())

    @cached_property
    def vocabulary(self) -> int:
        """How many ids there are: one more than the highest."""
        return max(self._inner.get_vocab(with_added_tokens=True).values()) + 1

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids that stand for no text, which are never masked; the unknown token is not among them."""
        roles = {id for role, id in self._ids.items() if id is not None and role != "unknown"}
        added = self._inner.get_added_tokens_decoder().items()
        return frozenset(roles | {id for id, token in added if token.special and id != self.unknown_id})

    def id_of(self, token: str) -> int | None:
        """The id of one entry of the vocabulary, such as `great` or `##ly`; None if it is not an entry."""
        return self._inner.token_to_id(token)

    def token(self, id: int) -> str | None:
        """The entry of the vocabulary with an id; None if there is none."""
        return self._inner.id_to_token(id)

    def pieces(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""
        return self._inner.encode(replace_surrogates(text), add_special_tokens=False).ids

    def pieces_of(self, texts: Sequence[str], *, specials: bool = True) -> list[list[int]]:
        """The ids of each of many texts, without special tokens around them; faster than one by one.

        Args:
            texts: the texts.
            specials: whether `[MASK]` and the like in a text are special tokens; if not, they are text as any other.
        """
        whole = [replace_surrogates(text) for text in texts]
        self._inner.encode_special_tokens = not specials
        try:
            return [e.ids for e in self._inner.encode_batch_fast(whole, add_special_tokens=False)]
        finally:
            self._inner.encode_special_tokens = False

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, without special tokens."""
        return self._inner.decode(list(ids), skip_special_tokens=True)

    def encode(
        self, first: str, second: str | None = None, *, length: int, shorten: Shorten = "longest"
    ) -> Encoding:
        """`[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`, with what stands `between` two texts, cut to fit.

        Args:
            first: a text.
            second: the text it is paired with, if any.
            length: the most tokens, special tokens included.
            shorten: of a pair, cut the end of the one that is longer at the moment, or only of the first or the second;
                or cut the middle of the first.

        Raises:
            TaskError: there is no room, because the text that may not be cut fills it.
        """
        texts = [replace_surrogates(text) for text in ([first] if second is None else [first, second])]
        encoded = [self._inner.encode(text, add_special_tokens=False) for text in texts]
        kept = fit_lengths([len(e.ids) for e in encoded], self.room(length, len(texts)), shorten)
        ids, types = [self.cls_id], [0]
        offsets: list[tuple[int, int]] = [(0, 0)]
        sequence: list[int | None] = [None]
        for index, (text, count) in enumerate(zip(encoded, kept, strict=True)):
            tail = count // 2 if shorten == "middle" and index == 0 else 0
            head, end = count - tail, len(text.ids) - tail
            after = (self.sep_id,) if index == len(texts) - 1 else self.between
            ids += [*text.ids[:head], *text.ids[end:], *after]
            offsets += [*text.offsets[:head], *text.offsets[end:], *[(0, 0)] * len(after)]
            sequence += [*[index] * count, *[None] * len(after)]
            types += [index * self.second_type] * (count + len(after))
        return Encoding(tuple(ids), tuple(types), tuple(offsets), tuple(sequence))

    def room(self, length: int, texts: int) -> int:
        """How many of `length` tokens special ones leave to a text, or to a pair of them."""
        return length - 2 - (len(self.between) if texts == 2 else 0)

    def _is_framed(self) -> bool:
        """Whether the file itself puts a text, and a pair, between special tokens."""
        single, pair = self._inner.encode("").ids, self._inner.encode("", "").ids
        return (
            single == [self.cls_id, self.sep_id]
            and len(pair) > 2
            and (pair[0], pair[-1]) == (self.cls_id, self.sep_id)
        )

    def _frame(self) -> None:
        """Let the file put texts between special tokens as BERT has them."""
        from tokenizers.processors import Sequence, TemplateProcessing

        first, last = (str(self.token(id)) for id in (self.cls_id, self.sep_id))
        frame = TemplateProcessing(
            single=f"{first}:0 $A:0 {last}:0",
            pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
            special_tokens=[(first, self.cls_id), (last, self.sep_id)],
        )
        before = self._inner.post_processor
        offsets_alone = before is not None and not before.num_special_tokens_to_add(False)
        self._inner.post_processor = Sequence([before, frame]) if offsets_alone else frame


def replace_surrogates(text: str) -> str:
    """A text as UTF-8 can hold it: halves of a character, such as JSON's `\\ud800`, are replaced one by one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    return text


def fit_lengths(lengths: Sequence[int], room: int, shorten: Shorten = "longest") -> list[int]:
    """How many tokens of one or two texts are kept to fit into `room` together.

    Raises:
        TaskError: the texts that may not be cut leave no room.
    """
    kept = list(lengths)
    over = sum(kept) - room
    if over <= 0:
        return kept
    if room < len(kept):
        raise TaskError(f"special tokens leave no room for {len(kept)} texts; raise the length")
    if len(kept) == 1:
        return [room]
    if shorten == "longest":
        short = int(kept[1] < kept[0])  # as the package tokenizers: of an odd room the longer gets one more
        kept[short] = min(kept[short], room // 2)
        kept[1 - short] = room - kept[short]
        return kept
    cut = 1 if shorten == "second" else 0
    kept[cut] -= over
    if kept[cut] < 0:
        one, other = ("first", "second") if cut == 0 else ("second", "first")
        raise TaskError(
            f"the {other} text has {kept[1 - cut]} tokens, which leaves the {one} no room within {room}; raise the "
            "length, or allow the longest to be cut"
        )
    return kept


def _content(inner: tokenizers.Tokenizer) -> bytes:
    """The JSON of a tokenizer, a line an entry."""
    return (json.dumps(json.loads(inner.to_str()), ensure_ascii=False, indent=1) + "\n").encode()


def _wordpiece(pieces: Sequence[str], *, lowercase: bool) -> tokenizers.Tokenizer:
    """BERT's tokenizer with a vocabulary, in the order of the ids."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

    ids = {piece: id for id, piece in enumerate(pieces)}
    inner = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", continuing_subword_prefix=_CONTINUES))
    inner.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece(prefix=_CONTINUES)
    inner.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIALS if t in ids])
    return inner


def _characters(texts: Iterable[str], lowercase: bool) -> tuple[list[str], list[str]]:
    """The most frequent characters that words begin with or hold, and those of them that continue one; sorted.

    Words are counted between spaces first, and each is normalised once.
    """
    inner = _wordpiece(SPECIALS, lowercase=lowercase)
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(text.split())
    counts: Counter[str] = Counter()
    continuing: set[str] = set()
    normalizer, pre_tokenizer = cast(Any, inner.normalizer), cast(Any, inner.pre_tokenizer)
    for chunk, count in chunks.items():
        for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(chunk)):
            continuing.update(word[1:])
            for character in word:
                counts[character] += count
    alphabet = sorted(counts, key=lambda character: (-counts[character], character))[:_ALPHABET]
    return sorted(alphabet), sorted(continuing.intersection(alphabet))


def _pieces(content: bytes, path: Path) -> list[str]:
    """The entries of a BERT vocabulary, in the order of the ids."""
    try:
        # not splitlines(), which also divides at characters that are entries of published vocabularies
        pieces = [line.rstrip("\r") for line in content.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        raise TaskError(f"vocabulary {path} is not UTF-8: {error}; give the published file") from error
    while pieces and not pieces[-1]:
        pieces.pop()
    twice = [piece for piece, count in Counter(pieces).items() if count > 1]
    if twice:
        raise TaskError(
            f"vocabulary {path} has {twice[0]!r} twice (lines "
            f"{', '.join(str(i) for i, p in enumerate(pieces, 1) if p == twice[0])}); each entry must have one id"
        )
    missing = [token for token in SPECIALS if token not in pieces]
    if missing:
        raise TaskError(
            f"vocabulary {path} lacks {', '.join(missing)}; give a vocabulary of BERT's, one entry a line"
        )
    return pieces


def _lowercases(path: Path, pieces: Iterable[str]) -> bool:
    """Whether a tokenizer with this vocabulary lower-cases its texts."""
    settings = path.with_name(SETTINGS)
    if settings.is_file():
        try:
            table = read_json(settings)
        except (OSError, ValueError) as error:
            raise TaskError(
                f"{settings} cannot be read: {error}; repair it, or remove it to go by the vocabulary"
            ) from error
        stated = table.get("do_lower_case") if isinstance(table, dict) else None
        if isinstance(stated, bool):
            return stated
    return not any(piece != piece.lower() for piece in pieces if not piece.startswith("["))
