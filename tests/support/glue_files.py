"""Small files of GLUE, written by hand in the published formats."""

from __future__ import annotations

from pathlib import Path

TOKENS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "dog", "cat", "sat", "ran", "on",
    "mat", "is", "was", "not", "good", "bad", "film", "it", "they", "who", "what",
]  # fmt: skip

COLA = {
    "train.tsv": ["gj04\t1\t\tThe dog sat.", "gj04\t0\t*\tSat the dog.", 'gj04\t1\t\tThe "cat ran.'] * 2,
    "dev.tsv": ["bc01\t1\t\tThe cat sat.", "bc01\t0\t*\tRan cat the."],
    "test.tsv": ["index\tsentence", "0\tThe dog ran.", "1\tDog the ran."],
}
SST2 = {
    "train.tsv": ["sentence\tlabel", "a good film \t1", "a bad film \t0", "it was good \t1", "not good \t0"],
    "dev.tsv": ["sentence\tlabel", "it is good \t1", "it is bad \t0"],
    "test.tsv": ["index\tsentence", "0\ta good mat", "1\ta bad cat"],
}
MRPC = {
    "train.tsv": [
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '1\t702876\t702977\tThe dog , " sat on the mat\tOn the mat the dog sat',
        "0\t2108705\t2108831\tThe cat ran\tThe dog was not good",
    ],
    "dev.tsv": [
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        "1\t1\t2\tThe cat ran\tThe cat ran",
        "1\t3\t4\tThe dog ran\tA dog ran",
        "0\t5\t6\tThe dog ran\tIt is bad",
    ],
    "test.tsv": ["index\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t1089874\t1089925\tThe cat\tThe dog"],
}
_STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
STSB = {
    "train.tsv": [
        _STSB + "\tscore",
        "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA dog sat.\tA cat sat.\t2.500",
        "1\tmain-captions\tMSRvid\t2012test\t0004\tnone\tnone\tA dog ran.\tA dog ran.\t5.000",
    ],
    "dev.tsv": [
        _STSB + "\tscore",
        "0\tmain-captions\tMSRvid\t2012test\t0000\tnone\tnone\tA cat.\tThe cat.\t4.75",
        "1\tmain-captions\tMSRvid\t2012test\t0002\tnone\tnone\tA cat.\tThey ran.\t0.0",
        "2\tmain-captions\tMSRvid\t2012test\t0003\tnone\tnone\tA cat sat.\tThe cat ran.\t2",
    ],
    "test.tsv": [_STSB, "0\tmain-captions\tMSRvid\t2012test\t0024\tnone\tnone\tA dog\tA cat"],
}
QQP = {
    "train.tsv": ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "7\t1\t2\tWho ran?\tWho sat?\t0"]
    + [f"{i}\t{i}\t{i}\tWhat is it?\tWhat was it?\t1" for i in range(150)]
    + ["99\t5", "8\t3\t4\tWho is it?\t\t0"],
    "dev.tsv": ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "3\t1\t2\tWho?\tWho?\t1"],
    "test.tsv": ["id\tquestion1\tquestion2", "0\tWho is good?\tWhat is good?", "1\tWho?\tWho?"],
}
_MNLI = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
    "sentence2_parse\tsentence1\tsentence2"
)


def _mnli(index: int, first: str, second: str, *labels: str) -> str:
    texts = "\t".join((str(index), "31193", "31193n", "government", "( )", "( )", "(ROOT )", "(ROOT )"))
    return "\t".join((texts, first, second, *labels))


MNLI = {
    "train.tsv": [
        _MNLI + "\tlabel1\tgold_label",
        _mnli(0, "The dog sat.", "The dog ran.", "contradiction", "contradiction"),
        _mnli(1, "The dog sat.", "A dog sat.", "entailment", "entailment"),
        _mnli(2, "The dog sat.", "It is good.", "neutral", "neutral"),
    ],
    "dev_matched.tsv": [
        _MNLI + "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label",
        _mnli(0, "A cat sat.", "It ran.", *["neutral"] * 5, "neutral"),
        _mnli(1, "A cat sat.", "It sat.", "neutral", *["entailment"] * 4, "entailment"),
    ],
    "dev_mismatched.tsv": [
        _MNLI + "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label",
        _mnli(0, "A dog.", "No dog.", *["contradiction"] * 5, "contradiction"),
    ],
    "test_matched.tsv": [_MNLI, _mnli(0, "A cat.", "A dog."), _mnli(1, "A cat sat.", "A dog.")],
    "test_mismatched.tsv": [_MNLI, _mnli(0, "A film.", "A dog.")],
    "diagnostic.tsv": ["index\tsentence1\tsentence2", "0\tThe cat sat on the mat.\tThe cat did not sit."],
}
QNLI = {
    "train.tsv": [
        "index\tquestion\tsentence\tlabel",
        "0\tWho sat on the mat?\tThe cat sat on the mat.\tentailment",
        "1\tWho ran?\tThe cat sat on the mat.\tnot_entailment",
    ],
    "dev.tsv": ["index\tquestion\tsentence\tlabel", "0\tWho ran?\tThe dog ran.\tentailment"],
    "test.tsv": ["index\tquestion\tsentence", "0\tWho ran?\tIt is good."],
}
RTE = {
    "train.tsv": [
        "index\tsentence1\tsentence2\tlabel",
        "0\tThe dog ran.\tThe dog sat.\tnot_entailment",
        "1\tThe dog ran.\tA dog ran.\tentailment",
    ],
    "dev.tsv": ["index\tsentence1\tsentence2\tlabel", "0\tIt is good.\tIt is not bad.\tentailment"],
    "test.tsv": ["index\tsentence1\tsentence2", "0\tThe dog.\tA dog."],
}
WNLI = {
    "train.tsv": [
        "index\tsentence1\tsentence2\tlabel",
        "0\tThe dog sat on it and it was bad.\tThe dog was bad.\t0",
        "1\tThe dog sat on it and it was bad.\tThe mat was bad.\t1",
    ],
    "dev.tsv": ["index\tsentence1\tsentence2\tlabel", "0\tIt ran.\tThe cat ran.\t1"],
    "test.tsv": ["index\tsentence1\tsentence2", "0\tIt ran.\tThe cat ran."],
}
TITLES = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI")
FILES = dict(zip(TITLES, (COLA, SST2, MRPC, STSB, QQP, MNLI, QNLI, RTE, WNLI), strict=True))


def write_glue(folder: Path) -> Path:
    """The nine folders, as the published archives unpack. Some files begin with a byte-order mark, some have CRLF."""
    for title, files in FILES.items():
        (folder / title).mkdir(parents=True)
        for name, lines in files.items():
            end = "\r\n" if title == "RTE" else "\n"
            mark = "\ufeff" if title == "MRPC" else ""
            content = (mark + end.join(lines) + end).encode()
            (folder / title / name).write_bytes(content)
    return folder


def write_vocabulary(folder: Path) -> Path:
    path = folder / "vocab.txt"
    letters = [f"{prefix}{letter}" for prefix in ("", "##") for letter in 'abcdefghijklmnopqrstuvwxyz.?,"']
    path.write_text("\n".join([*TOKENS, *(piece for piece in letters if piece not in TOKENS)]) + "\n")
    return path
