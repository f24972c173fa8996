"""What usually breaks each contract, and the lines of a part that look like it, for the words of a failure."""

from __future__ import annotations

import ast
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from inspect import getattr_static, getsourcefile, getsourcelines, isfunction, signature
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

COMPUTED = (
    "infer", "scores", "sums", "step", "read", "unary", "binary", "pairs", "rotations", "scope", "forward", "loss",
    "batches", "prepare", "export", "verify",
)  # fmt: skip
"""The methods by which parts compute, whatever their kind."""
_ORDER = (*COMPUTED, "terms", "words", "metrics", "__init__", "")
"""Where a cause is looked for first; other methods come before the last two."""
_STATED = ("reference", "check", "example", "plain_")
"""How the methods begin that compute nothing of a model."""
_CONTRACTS = ("peirce.parts", "peirce.model")
"""Where the methods of parts are declared."""
_BY_CHECK = {
    "words": "words", "terms": "terms", "loss": "loss", "loss_numerics": "loss", "targets": "loss",
    "task_data": "prepare", "task_process": "prepare", "task_splits": "prepare",
    "task_batches": "batches", "task_metrics": "metrics",
    "export_report": "export", "export_overwrites": "export", "export_failure": "export", "export_options": "export",
    "export_values": "export", "export_verification": "export",
}  # fmt: skip
"""The methods that some checks are about."""
_BY_OUTPUT = {
    "the": "loss", "score": "pairs", "value": "pairs", "query": "rotations", "key": "rotations",
    "unary": "unary", "binary": "binary", "scope": "scope", "index": "index",
}  # fmt: skip
"""The methods that give what a failure begins with the name of."""
_SIZE = r"\blen\(|\.shape\b|\.size\(|\.item\(|\bint\(|\brange\("
_OVER = r"\.(mean|sum|max|amax|amin|softmax|logsumexp|cumsum|std|var)\("
_RANDOM = r"rand|shuffle|Generator|manual_seed|default_rng|time\("
_OF_VALUES = r"^(?!.*(maps included|reads the))"


class Cause(NamedTuple):
    """A cause in a few words.

    words: the cause.
    line: what a line of the part that may have it matches; of patterns apart by `||`, the first that any line does.
    found: what the words of a failure that it may have match; any if empty.
    within: what the name of the method with that line matches; `$` for a declaration of the class.
    """

    words: str
    line: str
    found: str = ""
    within: str = ""


CAUSES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "shapes": (
        ("a `reshape` or a `view` that takes two sizes for equal", r"reshape|view\(|flatten"),
        ("a size that is declared and is not the computed one", r"dims=|shape=", "has the shape"),
    ),
    "dtypes": (
        ("a dtype that is fixed, or asked for", r"b?float(16|32|64)|\.(float|double|half)\(|autocast|dtype [=!]="),
        ("a tensor that is made in the default dtype", r"torch\.(zeros|ones|tensor|arange|eye|full|rand|linspace)"),
    ),
    "options": (("an option that is read and then not used", ""),),
    "defaults": (("an option whose default only works at some sizes", r"options"),),
    "inputs": (
        ("an id that is changed before it is looked up", r"inputs\[.*\][^)]* - |- 1\]", "negative|high|range"),
        ("an input that is taken without asking whether it is there", r"inputs\[", "Error|default"),
    ),
    "needs": (("an output of the architecture that `needs` does not list", r"encoded\.(pooled|binary)"),),
    "words": (("`words` lacks a change that `forward` makes", r"return", "", "words"),),
    "reference": (
        ("a bias, a `scale` or a softmax that one has and the other lacks", r"Reader\(|Writer\(", "maps included"),
        ("two axes that are exchanged", r"permute|transpose|einsum|@", _OF_VALUES),
        ("a sign, a factor, an index or a term that differs", r" [*/+@] ||return", _OF_VALUES),
    ),
    "scale": (("a sum over the channels of a head without a `scale`", r"Reader\(|einsum|@"),),
    "purity": (
        ("an operation in place", r"\w_\(|[-+*/]=|requires_grad"),
        ("a draw in evaluation, or a change of what all share", r"rand|manual_seed|set_grad|set_default|bernoulli"),
    ),
    "calls": (
        ("something that is kept of a call", r"self\.\w+ (=|\+=)|vars\(self\)|cache", "", "(?!__init__)"),
        ("a function or a tensor that is kept of the first instance", r"lambda|partial", "copy"),
    ),
    "long_sequences": (
        ("places counted in eight bits, or in the model's dtype", r"uint8|int8|\.to\(|\.half|bfloat16|type_as"),
    ),
    "limits": (("a number that texts or heads are longer than", r"\d{2,}|uint8|int8|clamp|//", r"^(?!.*`ref)"),),
    "batch": (
        ("a reduction over the axis of examples", _OVER + r"(dim=)?\(?0\b|\blen\(|batch_norm|BatchNorm"),
        ("a reduction over all axes", _OVER + r"\)"),
    ),
    "token_permutation": (("the order of tokens, which positions alone know", r"cumsum|arange|roll|flip|\[:, [0-9-]"),),
    "locality": (
        ("a reader of tokens that rows attend to without `cached=True`", r"Reader\((?!.*cached)", "the reading"),
        ("a sum over tokens, or a transpose", _OVER + "|transpose|@|converse", "hides has changed"),
        ("the rule `pairwise` or `none`, where nothing is summed", r"scope_rule", "no result depends", "$"),
    ),
    "padding": (
        ("a reduction that counts padding", _OVER + "1|" + _OVER + "dim=1|" + _OVER + "-"),
        ("tokens that are counted without the mask", r"cumsum|arange|tokens\.length|\.shape\[1\]"),
    ),
    "outside": (("what is added behind the mask; use `scope.zero_unary` and `scope.zero_binary`", r"\+|bias"),),
    "no_look_ahead": (("a reduction over the whole text; use `scope.softmax`", _OVER + r"|flip|roll|\[:, -1"),),
    "empty_rows": (
        (
            "a number made of zero, as a shift or a sigmoid makes one; use `scope.zero_unary` or `scope.zero_binary`",
            r"sigmoid|exp\(|cos|softplus||return .*\+|\+=",
            "is expected",
        ),
        ("a division by what may be zero, or minus infinity as a mask", r" / |inf|softmax|norm", "nan|inf|finite"),
    ),
    "finite": (("an exponential, a root or a division", r"exp\(|log\(|sqrt|pow|\*\*| / |norm"),),
    "compiled": (("another way where it is compiled, or a number counted in Python", r"is_compiling|" + _SIZE),),
    "precision": (("a dtype that is narrower; use `at_least_float32`", r"\.float\(|\.half\(|float32|\.to\("),),
    "devices": (("a tensor that is made on the CPU", r"torch\.(zeros|ones|tensor|arange|eye|full|rand|linspace)"),),
    "gradients": (
        ("`detach`, `no_grad` or numbers taken out of a tensor", r"detach|no_grad|\.data\b|item\(|tolist"),
        ("steps: rounding, a comparison, the largest", r"round|floor|ceil|argmax|topk| [<>] |sign\("),
    ),
    "learning": (("parameters that begin where no gradient is", r"Parameter\(|zeros|nn\.init"),),
    "modes": (
        ("another way in training, or a rate of its own", r"self\.training|dropout|Dropout", "train|eval|recomp|drops"),
        ("a buffer that a call changes", r"BatchNorm|batch_norm|self\.\w+ (=|\+=)", "state|buffer", "(?!__init__)"),
    ),
    "terms": (("a mean that counts padding, or a value for each token", _OVER + "|return"),),
    "loss": (
        ("labels in another form than `labels` says", r"labels", "says|usual"),
        ("a loss of each row, or one that is detached", r"reduction|detach|no_grad|return", "shape|gradient"),
    ),
    "loss_numerics": (("a dtype that is fixed; use `at_least_float32`", r"\.float\(|\.half\(|float32|_\("),),
    "targets": (
        ("a sum, or a mean over places of -100; use `mean_cross_entropy`", r"reduction|mean\(|sum\(|entropy"),
    ),
    "kernel": (("logits that are not masked, or a gradient that misses a sum", r"softmax|where\(|\.sum\(|detach"),),
    "seed": (("another generator than torch's", r"random|manual_seed|Generator|default_rng"),),
    "state_dict": (
        ("a tensor that is a plain attribute; make it a buffer", r"self\.\w+ = (?!nn\.).*(torch\.|Tensor)"),
    ),
    "save_load": (
        (
            "what no state dict has: a path, a file, a number of its own",
            r"Path|open\(|os\.|self\.\w+ = (?!nn\.|options|dims|plan)",
        ),
    ),
    "scopes": (("weights that are not `scope.softmax`'s", r"weights?\b.*=|softmax|masked_fill|where\("),),
    "places": (
        ("word embeddings that are not those of `TokenInput.words()`", r"Encoded\(|\.words\(", "word embeddings"),
        ("a part of the input that is not asked for", r"self\.input\.", "no effect|depends"),
    ),
    "dims": (("a size that is read and then not used", ""),),
    "initial_values": (("a factor of the wrong power of the width", r"\*\*|sqrt|randn|normal_|uniform_"),),
    "fused": (("another way where it is fused", r"fuse"),),
    "memory": (
        ("a reader of tokens that rows attend to without `cached=True`", r"Reader\((?!.*(cached|softmax))"),
        ("rows of every token, where `tokens.rows` takes the new ones", r"(?<!rows\()tokens\.(index|types|inputs)"),
        ("a count of the tokens, of which some are cached", r"\.shape\[|\blen\(|\.size\("),
    ),
    "onnx": (
        (
            "a size or a value that becomes a constant of the graph", _SIZE + r"|\bif |unbind|zip\(",
            "symbolic|special|guard|depend|expected|differ",
        ),
    ),
    "export_report": (
        ("a mode or dtype set in the model; `model.exportable()` has its own", r"\.(eval|train|half|to)\(", "model"),
        ("a report of another file than the one that was given", r"Report\(|return"),
    ),
    "export_overwrites": (("a path beside the one that was given", r"unlink|rmtree|with_name|with_suffix|parent"),),
    "export_failure": (("a file that is opened before its content is made", r"open\(|write_bytes|touch|mkdir"),),
    "export_options": (("a choice that is not verified, or never read", r"options|passed=True"),),
    "export_values": (
        ("a size of the example that became a constant", r"example_inputs|shape|\[:", "not run|fixed|model's is"),
        ("a weight that is cast, turned about or left out", r"state_dict|astype|half|\.T\b|transpose", "differs"),
    ),
    "export_verification": (
        ("a comparison of some outputs, at one size, or of what is in memory", r"allclose|equal|verify|passed=True"),
    ),
    "task_data": (("data that depend on a global random state, or on the time", _RANDOM),),
    "task_process": (("the order of a set, or a seed from `hash`", r"^(?!.*\bf[\"']).*(hash\(|set\(|\{[^:{}]+\})"),),
    "task_splits": (
        ("one seed for every split, a slice that begins too early, one file for two", _RANDOM + r"|\[.*:.*\]|split"),
    ),
    "task_batches": (("a generator that is kept, or none; rows that are shuffled where they lie", _RANDOM),),
    "task_terms": (("a mean over padding, or a weight that only the loss knows", r" / |entropy|targets||" + _OVER),),
    "task_metrics": (("a mean of the means of batches", _OVER + r"| / ", "batch|padding"),),
    "task_reference": (("a label of another row, a text that is cut elsewhere, a mean of means", "return"),),
    "task_training": (("`detach`, or numbers taken out of a tensor", r"detach|no_grad|\.data\b|item\(|tolist"),),
    "task_options": (("an option that is read and then not used", r"options"),),
    "task_errors": (("a file that is read without asking what is in it", r"open\(|read|load|split\("),),
    "tensorrt": (("an addition in a scatter", r"scatter_add|index_add|bincount|scatter_reduce"),),
}  # fmt: skip
"""By check, the arguments of each `Cause`; of an option or a size, the line is one that reads it."""


def call_problems(part: type[Any]) -> Iterator[str]:
    """The methods of a part that cannot be called as their contract calls them."""
    contract = [base for base in getattr(part, "__mro__", ()) if base.__module__.startswith(_CONTRACTS)]
    for name in sorted({name for base in contract for name in vars(base)}):
        declared = next(vars(base)[name] for base in contract if name in vars(base))
        mine, theirs = (getattr(each, "__func__", each) for each in (getattr_static(part, name), declared))
        if mine is theirs or not (isfunction(mine) and isfunction(theirs)):
            continue
        wanted = signature(theirs).parameters
        if all(each.kind is each.POSITIONAL_OR_KEYWORD for each in wanted.values()):
            try:
                signature(mine).bind(*wanted)
            except TypeError:
                has, needs = (", ".join([*names][1:]) for names in (signature(mine).parameters, wanted))
                yield f"{name} takes ({has}), but its contract calls it with ({needs})"


class Line(NamedTuple):
    """A line of a part's code and the method that it stands in; empty for a declaration of the class."""

    method: str
    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.text}"


def method_of(check: str, part: Any, found: str = "", error: BaseException | None = None) -> str:
    """The method that a failure is about, with its file and line; empty where there is no source.

    Args:
        check: the check that failed.
        part: the part.
        found: what it found.
        error: what the part raised, if it did.
    """
    raised = _raised(part, error)
    first = found.partition(" ")[0]  # of a declaration, the method that is called otherwise
    about = raised.method if raised else _BY_CHECK.get(check) or _BY_OUTPUT.get(first)
    about = first if check == "declaration" else about
    for name in (about, *COMPUTED):
        for owner in _owners(part):
            value = vars(owner).get(name or "")
            if callable(function := getattr(value, "__func__", value)):
                try:
                    return f"{owner.__name__}.{name}, {getsourcefile(owner)}:{getsourcelines(function)[1]}"
                except (OSError, TypeError):
                    return ""
    return ""


def nearest(check: str, part: Any, found: str = "", error: BaseException | None = None) -> list[str]:
    """The usual causes of a failed check, each with the first line of the part that looks like it.

    Of an exception the line that raised it is looked at, and nothing is said where it looks like none of them; what was
    kept of earlier tokens may also be raised elsewhere. Arguments are as of `method_of`.
    """
    raised = _raised(part, error)
    about = method_of(check, part, found, error).partition(",")[0].rpartition(".")[2]
    lines = [line for line in _lines(part) if not line.method.startswith(_STATED)]
    lines.sort(key=lambda line: _ORDER.index(line.method) if line.method in _ORDER else len(_ORDER) - 2)
    lines.sort(key=lambda line: line.method != about)
    if reading := re.search(r"the reading '(\w+)'", found):
        lines.sort(
            key=lambda line: reading[1] != line.method and repr(reading[1]) not in line.text.replace('"', "'")
        )
    if check == "reference" and not re.search("maps included|^the outputs", found):
        lines = [line for line in lines if line.method == about or line.method not in _ORDER]
    causes = [Cause(*each) for each in CAUSES.get(check, ())]
    if names := re.findall(r"^(?:the )?(?:option|size) '(\w+)'", found, re.M):
        return [_reading(part, name, lines, causes[0].words) for name in names]
    causes = [each for each in causes if each.line and re.search(each.found, found)]
    seen = []
    for cause in causes:
        places = [raised] if raised and check != "memory" else lines
        places = [line for line in places if re.match(cause.within or ".", line.method)]
        for pattern in cause.line.split("||"):
            if line := next((line for line in places if re.search(pattern, line.text)), None):
                seen.append(f"perhaps {cause.words}: {line}")
                break
    return seen or ([f"usually {each.words}" for each in causes[:1]] if error is None else [])


def _reading(part: Any, name: str, lines: list[Line], words: str) -> str:
    """Where an option or a size is read that changes nothing, or that no line reads it."""
    reads = re.compile(rf"(?<!\bself)\.{name}\b|[\"']{name}[\"']")
    for line in (*lines, *_lines_of_module(part)):
        if line.method and reads.search(line.text):
            return f"perhaps {words}: {line}"
    return (
        f"no line of {getattr(sys.modules.get(part.__module__), '__file__', part.__module__)} reads {name!r}"
    )


def _raised(part: Any, error: BaseException | None) -> Line | None:
    """The last line of the part that an exception came by."""
    if error is None:
        return None
    known = {(line.file, line.number): line for line in _lines(part)}
    calls = reversed(traceback.extract_tb(error.__traceback__))
    return next((known[at] for call in calls if (at := (call.filename, call.lineno or 0)) in known), None)


def _owners(part: Any) -> list[type[Any]]:
    """The classes that a part is made of, but for those of its contract."""
    foreign = (*_CONTRACTS, "torch", "abc", "builtins", "typing")
    return [each for each in getattr(part, "__mro__", ()) if not each.__module__.startswith(foreign)]


def _lines(part: Any) -> list[Line]:
    """The lines of a part's methods and declarations, without docstrings and comments."""
    found = list[Line]()
    for owner in _owners(part):
        try:
            source, start = getsourcelines(owner)
            (tree,) = ast.parse(dedent("".join(source))).body
        except (OSError, TypeError, SyntaxError, ValueError):
            continue
        file = getsourcefile(owner) or ""
        found += _lines_below(tree, source, file, start - 1)
    return found


def _lines_of_module(part: Any) -> list[Line]:
    """The lines of everything in a part's module that computes."""
    try:
        file = sys.modules[part.__module__].__file__ or ""
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, KeyError, AttributeError):
        return []
    lines = (_lines_below(each, text.splitlines(), file, 0) for each in ast.parse(text).body)
    return [line for each in lines for line in each if not line.method.startswith(_STATED)]


def _lines_below(tree: ast.stmt, source: list[str], file: str, before: int) -> Iterator[Line]:
    """The lines of a class or a function; the first of `source` is that behind `before` ones of the file."""
    nodes = tree.body if isinstance(tree, ast.ClassDef) else [tree]
    for node in nodes:
        method = node.name if isinstance(node, ast.FunctionDef) else ""
        documented = isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None
        body = node.body[documented:] if isinstance(node, ast.FunctionDef) else [node]
        if isinstance(node, ast.ClassDef | ast.Import | ast.ImportFrom) or not body:
            continue
        for number in range(body[0].lineno, (node.end_lineno or 0) + 1):
            if text := source[number - 1].partition("#")[0].strip():
                yield Line(method, file, before + number, text)
