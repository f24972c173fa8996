"""Generated pairs of propositions like the published ones: balanced, of their sizes, with exact labels.

Pairs come in fours of two premises and two conclusions: A1 entails B1, A2 entails B2, A1 does not entail B2, and A2
does not entail B1. Each proposition then stands in one pair of either label, so none of them gives a label away, nor
do their variables. A is never a contradiction and B never a tautology. Sizes and numbers of variables are drawn as the
published validation file has them. A block of pairs depends on the seed and on its number alone, so any number of
workers make the same files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import ceil
from pathlib import Path
from random import Random
from shutil import rmtree

from attrs import frozen

from peirce.errors import TaskError
from peirce.files import explain_disk_errors, hold_lock, write_whole
from peirce.workers import part_file, write_parts
from peirce_tpru.entailment.files import TRAIN, Pair, connectives, find_files, guess, read_pairs
from peirce_tpru.entailment.formulas import CONNECTIVES, VARIABLES, columns_of, rename_in_order, variables

LETTERS: Mapping[int, int] = {1: 109, 2: 299, 3: 604, 4: 721, 5: 992, 6: 1000, 7: 781, 8: 371, 9: 109, 10: 14}
"""How many of the published validation pairs have so many variables."""
SIZES: tuple[Mapping[int, int], Mapping[int, int]] = (
    {3: 48, 4: 434, 5: 654, 6: 765, 7: 739, 8: 750, 9: 820, 10: 790},
    {1: 3, 2: 97, 3: 464, 4: 601, 5: 671, 6: 669, 7: 654, 8: 632, 9: 632, 10: 577},
)
"""How many of these pairs have an A, and how many a B, of so many connectives."""
MOST = 10_000_000
"""So many pairs are made at most; they are held in memory, in about three gigabytes."""
FOURS = 250
"""The fours of a block."""
HISTOGRAMS = ("variables", "connectives of A", "connectives of B")
CANDIDATES = 16
"""How many propositions are drawn for each of a four, at one choice of sizes."""
NAME = f"{TRAIN}.txt"
DRAWING = 1
"""Which way of drawing this is; another makes other pairs of the same seed."""
_KEPT = "the blocks that were done are kept, and the same command goes on from there"


@frozen
class RandomFormula:
    """A proposition with its table, and the bits of the letters that it has."""

    text: str
    table: int
    letters: int


@frozen
class GenerationResult:
    """What was made.

    Args:
        file: where the pairs are.
        pairs: how many there are.
        duplicates: pairs that were left out since one of the same four is another's, up to the names of variables.
        published: of these, those of which one of the same four is a published file's.
    """

    file: Path
    pairs: int
    duplicates: int
    published: int


def generate(
    folder: Path,
    pairs: int,
    seed: int = 0,
    *,
    workers: int = 1,
    published: Path | None = None,
    overwrite: bool = False,
) -> GenerationResult:
    """Write `train.txt` into a folder. What an interrupted call made is kept beside it, and the same call goes on.

    Args:
        folder: where it goes; made if it is not there.
        pairs: how many, rounded up to fours.
        seed: what is drawn.
        workers: how many processes draw; the file is the same for any number.
        published: a folder of files whose pairs must not be among them, up to the names of variables.
        overwrite: whether to replace a file that is there.

    Raises:
        TaskError: the file is there already, the folder is a file, a published file cannot be read, or there are
            more than `MOST` pairs.
        BusyError: another process writes it.
    """
    if pairs > MOST:
        raise TaskError(f"{pairs:,} pairs are too many: the limit is {MOST:,}; lower --pairs")
    if folder.exists() and not folder.is_dir():
        raise TaskError(f"{folder} is a file; give the folder that {NAME} goes into")
    file, zipped = folder / NAME, folder / f"{NAME}.gz"
    taken = TaskError(f"{file} exists already; choose another folder, or replace it with --overwrite")
    with explain_disk_errors(f"the pairs in {file}", _KEPT), hold_lock(file, folder=False):
        if zipped.exists():
            raise TaskError(
                f"{zipped} exists already, and a folder has only one of the two; remove it, or choose another folder"
            )
        parts = folder / f".{NAME}-{DRAWING}-{seed}.parts"
        if file.exists() and not overwrite and not parts.exists():
            raise taken
        known = set() if published is None else _known_pairs(published)
        parts.mkdir(exist_ok=True)
        kept: set[str] = set()
        fours: list[str] = []
        twice = theirs = done = 0
        while 4 * len(fours) < pairs:
            numbers = range(done, done + ceil((pairs - 4 * len(fours)) / (4 * FOURS)))
            for _ in write_parts(parts, numbers, partial(block, seed), workers):
                pass
            for draw_four in _read(parts, numbers):
                keys = {rename_in_order(*line.split(",")[:2]) for line in draw_four.splitlines()}
                if keys & known:
                    theirs += 1
                elif keys & kept or len(keys) < 4:
                    twice += 1
                elif 4 * len(fours) < pairs:
                    kept |= keys
                    fours.append(draw_four)
            done = numbers.stop
        text = "".join(fours)
        # A call that was killed after its last file left the same file and its parts.
        if file.exists() and not overwrite and file.read_text(encoding="utf-8") != text:
            raise taken
        write_whole(file, text)
        rmtree(parts)
    return GenerationResult(file, 4 * len(fours), 4 * (twice + theirs), 4 * theirs)


def block(seed: int, number: int) -> str:
    """The lines of one block."""
    rng = Random(f"entailment/{DRAWING}/{seed}/{number}")
    return "".join(f"{pair.line}\n" for _ in range(FOURS) for pair in draw_four(rng))


def draw_four(rng: Random) -> list[Pair]:
    """Two premises and two conclusions, each premise with each conclusion."""
    count = _pick(LETTERS, rng)
    pool = count if count < 3 else count + 1 if count < 5 else count + 2
    letters = list(VARIABLES)
    names = [letters.pop(int(rng.random() * len(letters))) for _ in range(pool)]
    columns, every = columns_of(pool), (1 << (1 << pool)) - 1
    while True:
        ones, others = (
            [
                [_draw_formula(size, names, columns, every, rng) for _ in range(CANDIDATES)]
                for size in (_pick(sizes, rng), _pick(sizes, rng))
            ]
            for sizes in SIZES
        )
        first, second = (_entailing_pairs(a, b, count, every) for a, b in zip(ones, others, strict=True))
        for (a1, b1), (a2, b2) in product(first, second):
            pairs = [(a1, b1, True), (a1, b2, False), (a2, b2, True), (a2, b1, False)]
            apart = a1.table & ~b2.table and a2.table & ~b1.table
            # Who looks at variables alone guesses as often right as wrong.
            within = [label for a, b, label in pairs if not b.letters & ~a.letters]
            if apart and within.count(True) == within.count(False):
                return [Pair(a.text, b.text, label, guess(a.text, b.text)) for a, b, label in pairs]


def histograms(pairs: Sequence[Pair]) -> dict[str, dict[int, float]]:
    """The shares of numbers of variables, and of connectives of A and of B."""
    counts = (
        Counter(len(variables(pair.one + pair.other)) for pair in pairs),
        Counter(connectives(pair.one) for pair in pairs),
        Counter(connectives(pair.other) for pair in pairs),
    )
    return dict(zip(HISTOGRAMS, map(_shares, counts), strict=True))


def published_histograms() -> dict[str, dict[int, float]]:
    """The shares of the published validation file, as `histograms` gives them."""
    return dict(zip(HISTOGRAMS, map(_shares, (LETTERS, *SIZES)), strict=True))


def _shares(counts: Mapping[int, int]) -> dict[int, float]:
    return {number: counts[number] / sum(counts.values()) for number in sorted(counts)}


def _entailing_pairs(
    ones: Sequence[RandomFormula], others: Sequence[RandomFormula], count: int, every: int
) -> list[tuple[RandomFormula, RandomFormula]]:
    """The pairs of which one entails the other, with so many variables together."""
    return [
        (one, other)
        for one, other in product(ones, others)
        if one.table
        and other.table != every
        and not one.table & ~other.table
        and (one.letters | other.letters).bit_count() == count
    ]


def _draw_formula(
    size: int, names: Sequence[str], columns: Sequence[int], every: int, rng: Random
) -> RandomFormula:
    """A proposition of `size` connectives, all four alike likely."""
    if size == 0:
        i = int(rng.random() * len(names))
        return RandomFormula(names[i], columns[i], 1 << i)
    sign = CONNECTIVES[int(rng.random() * len(CONNECTIVES))]
    if sign == "~":
        inner = _draw_formula(size - 1, names, columns, every, rng)
        return RandomFormula(f"~({inner.text})", every ^ inner.table, inner.letters)
    split = int(rng.random() * size)
    left = _draw_formula(split, names, columns, every, rng)
    right = _draw_formula(size - 1 - split, names, columns, every, rng)
    if sign == "&":
        table = left.table & right.table
    else:
        table = (left.table if sign == "|" else every ^ left.table) | right.table
    return RandomFormula(f"({left.text}{sign}{right.text})", table, left.letters | right.letters)


def _pick(counts: Mapping[int, int], rng: Random) -> int:
    """A number, as likely as it is counted."""
    return rng.choices(list(counts), list(counts.values()))[0]


def _known_pairs(folder: Path) -> set[str]:
    """The pairs of a folder's files, with renamed variables; its training file aside."""
    files = [path for name, path in find_files(folder).items() if name != TRAIN]
    return {rename_in_order(pair.one, pair.other) for path in files for pair in read_pairs(path)}


def _read(parts: Path, numbers: Iterable[int]) -> Iterator[str]:
    """The fours of some blocks, four lines each."""
    for number in numbers:
        try:
            lines = [pair.line for pair in read_pairs(part_file(parts, number))]
        except TaskError as error:
            raise TaskError(f"{error}; remove it, and run it again") from error
        for start in range(0, len(lines), 4):
            yield "".join(f"{line}\n" for line in lines[start : start + 4])
