"""What usually breaks each contract, and the lines of a part that look like it, for the words of a failure."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from inspect import getsourcefile, getsourcelines
from textwrap import dedent
from typing import Any

COMPUTED = (
    "infer", "scores", "sums", "read", "step", "unary", "binary", "pairs", "rotations", "scope", "forward", "loss",
    "batches", "prepare", "export",
)  # fmt: skip
"""The methods by which parts compute, whatever their kind."""
_SIZE = r"\blen\(|\.shape\b|\.size\(|\.item\(|\bint\(|\brange\("
_OVER = r"\.(mean|sum|max|amax|amin|softmax|logsumexp|cumsum|std|var)\("

CAUSES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "shapes": (("a `reshape` or a `view` that takes two sizes for equal", r"reshape|view\(|flatten"),),
    "dtypes": (
        ("a dtype that is fixed", r"float32|float64|\.float\(|\.double\(|\.half\("),
        ("a tensor that is made in the default dtype", r"torch\.(zeros|ones|tensor|arange|eye|full|rand|linspace)"),
    ),
    "options": (("an option that is read and then not used", r"options"),),
    "defaults": (("an option whose default only works at some sizes", r"options"),),
    "inputs": (
        ("an id that is changed before it is looked up", r"inputs\[.*\][^)]* - |- 1\]"),
        ("an input that is taken without asking whether it is there", r"inputs\["),
    ),
    "needs": (("an output of the architecture that `needs` does not list", r"encoded\.(pooled|binary)"),),
    "words": (("`words` lacks a change that `forward` makes", r"def words|return embeddings"),),
    "reference": (("two axes that are exchanged, or a term that is missing", r"permute|transpose|@|\* "),),
    "scale": (("a sum over the channels of a head without a `scale`", r"Reader\(|einsum|@"),),
    "purity": (
        ("an operation in place", r"\w_\(|[-+*/]=|requires_grad"),
        ("a draw in evaluation, or a change of what all share", r"rand|manual_seed|set_grad|set_default|bernoulli"),
    ),
    "calls": (("something that is kept of a call", r"self\.\w+ (=|\+=)|vars\(self\)|cache"),),
    "long_sequences": (
        ("places counted in eight bits, or in the model's dtype", r"uint8|int8|\.to\(|\.half|bfloat16|type_as"),
    ),
    "limits": (("a number that texts or heads are longer than", r"\d{2,}|uint8|int8|clamp|//"),),
    "batch": (
        ("a reduction over the axis of examples", _OVER + r"(dim=)?\(?0\b|\blen\(|batch_norm|BatchNorm"),
        ("a reduction over all axes", _OVER + r"\)"),
    ),
    "token_permutation": (("the order of tokens, which positions alone know", r"cumsum|arange|roll|flip|\[:, [0-9-]"),),
    "locality": (("a sum over tokens, or a transpose", _OVER + "|transpose|@|converse"),),
    "padding": (
        ("a reduction that counts padding", _OVER + "1|" + _OVER + "dim=1|" + _OVER + "-"),
        ("tokens that are counted without the mask", r"cumsum|arange|tokens\.length|\.shape\[1\]"),
    ),
    "outside": (("what is added behind the mask; use `scope.zero_unary` and `scope.zero_binary`", r"\+|bias"),),
    "no_look_ahead": (("a reduction over the whole text; use `scope.softmax`", _OVER + r"|flip|roll|\[:, -1"),),
    "empty_rows": (("a division by what may be zero, or minus infinity as a mask", r" / |inf|softmax|norm"),),
    "finite": (("an exponential, a root or a division", r"exp\(|log\(|sqrt|pow|\*\*| / |norm"),),
    "compiled": (("another way where it is compiled, or a number counted in Python", r"is_compiling|" + _SIZE),),
    "precision": (("a dtype that is narrower; use `at_least_float32`", r"\.float\(|\.half\(|float32|\.to\("),),
    "devices": (("a tensor that is made on the CPU", r"torch\.(zeros|ones|tensor|arange|eye|full|rand|linspace)"),),
    "gradients": (
        ("`detach`, `no_grad` or numbers taken out of a tensor", r"detach|no_grad|\.data\b|item\(|tolist"),
        ("steps: rounding, a comparison, the largest", r"round|floor|ceil|argmax|topk| [<>] |sign\("),
    ),
    "learning": (("parameters that begin where no gradient is", r"Parameter\(|zeros|init"),),
    "modes": (
        ("another way in training, or a rate of its own", r"self\.training|dropout|Dropout"),
        ("a buffer that a call changes", r"BatchNorm|batch_norm|self\.\w+ (=|\+=)"),
    ),
    "terms": (("a mean that counts padding, or a value for each token", _OVER + "|def terms"),),
    "loss": (("labels in another form than `labels` says", r"labels"),),
    "loss_numerics": (("a dtype that is fixed; use `at_least_float32`", r"\.float\(|\.half\(|float32|_\("),),
    "targets": (
        ("a sum, or a mean over places of -100; use `mean_cross_entropy`", r"reduction|mean\(|sum\(|entropy"),
    ),
    "seed": (("another generator than torch's", r"random|manual_seed|Generator|default_rng"),),
    "state_dict": (("a tensor that is a plain attribute; make it a buffer", r"self\.\w+ = .*(torch\.|Tensor)"),),
    "save_load": (
        ("what no state dict has: a path, a file, a number of its own", r"Path|open\(|os\.|self\.\w+ = "),
    ),
    "scopes": (("weights that are not `scope.softmax`'s", r"softmax|weights|scope"),),
    "places": (("a part of the input that is not asked for", r"self\.input|words|embeddings"),),
    "dims": (("a size that is read nowhere", r"dims"),),
    "fused": (("another way where it is fused", r"fuse"),),
    "memory": (
        ("a reader of tokens that rows attend to without `cached=True`", r"Reader\((?!.*cached)"),
        ("rows of every token, where `tokens.rows` takes the new ones", r"tokens\.(index|types|inputs)"),
    ),
    "onnx": (("a size or a value that becomes a constant of the graph", _SIZE + r"|\bif |unbind|zip\("),),
    "tensorrt": (("an addition in a scatter", r"scatter_add|index_add|bincount|scatter_reduce"),),
}  # fmt: skip
"""By check: each cause in a few words, and what a line that may have it matches."""


def where(part: Any) -> str:
    """The method that a part computes by, with its file and line; empty where there is no source."""
    for name in COMPUTED:
        for owner in getattr(part, "__mro__", ()):
            if name in vars(owner) and not owner.__module__.startswith(
                ("peirce.parts", "peirce.model", "torch")
            ):
                try:
                    function = vars(owner)[name]
                    line = getsourcelines(getattr(function, "__func__", function))[1]
                    return f"{owner.__name__}.{name}, {getsourcefile(owner)}:{line}"
                except (OSError, TypeError):
                    return ""
    return ""


def nearest(check: str, part: Any) -> list[str]:
    """The usual causes of a failed check, each with the first line of the part that looks like it; one at least."""
    found = []
    for cause, pattern in CAUSES.get(check, ()):
        for file, line, text in _lines(part):
            if re.search(pattern, text):
                found.append(f"perhaps {cause}: {file}:{line}: {text}")
                break
    return found or [f"usually {cause}" for cause, _ in CAUSES.get(check, ())[:1]]


def _lines(part: Any) -> Iterator[tuple[str, int, str]]:
    """The lines of a part that compute, those of its methods before its declarations: file, number and text."""
    try:
        source, start = getsourcelines(part)
        file = sys.modules[part.__module__].__file__ or ""
        tree = ast.parse(dedent("".join(source)))
    except (OSError, TypeError, SyntaxError, KeyError, AttributeError):
        return
    (body,) = tree.body
    methods = [each for each in getattr(body, "body", ()) if isinstance(each, ast.FunctionDef)]
    order = sorted(
        methods, key=lambda each: COMPUTED.index(each.name) if each.name in COMPUTED else len(COMPUTED)
    )
    for method in order:
        if not method.name.startswith(("reference", "check", "example", "plain_")):
            documented = ast.get_docstring(method) is not None
            first = method.body[0].end_lineno if documented else method.lineno - 1
            for number in range((first or 0) + 1, (method.end_lineno or 0) + 1):
                text = source[number - 1].partition("#")[0].strip()
                if text:
                    yield file, start + number - 1, text
