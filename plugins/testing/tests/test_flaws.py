"""Each check of parts finds a flaw of the kind that it is about, and nothing in the part without that flaw.

The parts are the templates of `peirce new` and the suite's stub parts, each with one change of its source.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

import pytest
from attrs import frozen

from peirce.registry import KINDS, Registry
from peirce_testing import BrokenError, Case, stub_parts
from peirce_testing.checks import CHECKS
from peirce_testing.compare import NotApplicableError, NotRunError
from peirce_testing.new.part import NewPart
from peirce_testing.stub_parts import with_stub_parts

Change = tuple[str, str]
"""What stands in the source, and what stands there in its place."""


@frozen
class Flaw:
    """A change that one check must find.

    Args:
        check: the check.
        source: a kind of which `peirce new` has a template, or `stub` for the suite's stub parts.
        about: what is wrong with the part.
        changes: of the source; further ones make room for the first.
        part: kind and name of the part.
    """

    check: str
    source: str
    about: str
    changes: tuple[Change, ...]
    part: tuple[str, str]


def _flaw(check: str, source: str, about: str, *changes: Change) -> Flaw:
    kind = "operators" if source == "stub" else f"{source.rpartition('-')[2]}s"
    return Flaw(check, source, about, changes, (kind, "join" if source == "stub" else "flawed"))


_KERNEL = """    def fused(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return kernel.detach() * premise

"""


def _infer(check: str, about: str, expression: str) -> Flaw:
    """An operator that computes something else than the product of its readings."""
    return _flaw(check, "operator", about, ("return kernel * premise\n", f"return {expression}\n"))


_FORWARD = "unary = self.gate(state.unary).sigmoid() * self.content(state.unary)"
_WEIGHTS = "self.weights = nn.Parameter(torch.ones(dims.vocabulary, 1))"
_GATED = "return embeddings * self.weights[tokens.rows(tokens.inputs["
_LOSS = 'return model.loss("classification", model(input_ids=batch["input_ids"]), batch["labels"])'
_GUARDED = """if split not in data:
            raise TaskError(f"there is no split {split!r}; there are {', '.join(data)}")
        ids, labels = data[split]
        order"""
_CROSS_ENTROPY = (
    'scores = model(input_ids=batch["input_ids"])["classification_logits"]\n'
    '        return torch.nn.functional.cross_entropy(scores, batch["labels"])'
)
_TARGETS = """    def targets(self, batch):
        return {"loss": int((batch["labels"] >= 0).sum())}

"""

_ORDER = "scope.tokens.sum(1).argsort()"
_SORTED = f"lambda found: found if scope.tokens is None else found[{_ORDER}][{_ORDER}]"
_READ = "self.factor = float(__import__('pathlib').Path(options.file).read_text()) if options.file else 1.0"
_LABELS = """    def example_labels(self, outputs, generator):
        return torch.randint(self.grades, (len(outputs["logits"]), 1), generator=generator)

"""
_BARE = "('token_type_ids' not in tokens.inputs)"
_IN = "way: str = field(default='near', validator=validators.in_(('near', 'far')))"
_GATE = "self.gate = nn.Linear(dims.unary, dims.unary)"
_WORDS = "    def words("
_ONES = "torch.ones_like(tokens.index).to(torch.float32 if hasattr(self, 'wide') else self.direction)"
_WEIGHED = f"tokens.rows(tokens.inputs.get('weight', {_ONES}))[..., None]"
_WEIGHT = """    def inputs(self):
        from peirce.parts import TensorSpec
        row = ("batch", "length")
        return (TensorSpec(name="weight", dtype="float", dims=row, required=False, default=1.0, meaning="A weight."),)

"""
_FILE = """    @classmethod
    def example_in(cls, folder, dims):
        (folder / "factor").write_text("2.0")
        return {"file": str(folder / "factor")}

"""
_FILE_OPTIONS = """from attrs import frozen


@frozen(kw_only=True)
class FileOptions:
    \"\"\"One file.\"\"\"

    file: str = ""


"""
_COUNTED = """    def reference(self, given, scope, parameters, dims):
        return {"unary": [[x + 1.0] * dims.unary for x in range(len(given["input_ids"]))]}

"""
_BOOLEAN = "compressed: bool = False"
_PLACED = 'return write_verified(path, "weights.npz", write)'
_VERIFIED, _UNVERIFIED = (
    "return verify_read(self.read, fresh, model)",
    "return Report(file=fresh, passed=True)",
)
_FIRST = """found, inputs = self.read(fresh, deepcopy(model)), model.example_inputs()
            (one, *_), (other, *_) = found(**inputs).values(), model(**inputs).values()
            if not torch.allclose(one, other):
                raise ExportError("it differs")
            return Report(file=fresh, passed=True)"""
_LAX = """class Lax(Runtime):
    def open(self, path, providers, threads):
        raise NotImplementedError

    def verify(self, path, model, **how):
        return Report(file=path, passed=True)


@peirce.hookimpl
def register_runtimes():
    return {".npz": f"{__name__}:Lax"}


"""
_SHELL, _TORCH = "return shell\n", "import torch\n"
FLAWS = (
    # The conditions: sizes, dtypes, modes, options, files, and what a part states.
    _infer("reference", "another factor where there are four heads", "kernel * premise * (1 + (self.dims.heads == 4))"),
    _infer("padding", "takes an order of lengths for its own inverse", f"({_SORTED})(kernel * premise)"),
    _infer("limits", "texts of 512 tokens at most", "kernel * premise * (kernel.shape[1] < 513)"),
    _flaw(
        "memory", "stub", "knows eight tokens before it",
        ("return (kernel.permute", "kernel = kernel * (premise.shape[1] < 9)\n        return (kernel.permute"),
    ),
    _infer("dtypes", "steps in float16", "(kernel.round() if kernel.dtype == torch.float16 else kernel) * premise"),
    _flaw(
        "dtypes", "unary-position", "a default that is float32 in every model",
        ('name = "flawed"', 'name = "flawed"\n    wide = True'),
        ("(self.direction.dtype)\n", f"(self.direction.dtype) * {_WEIGHED}\n"),
        ("    def unary", f"{_WEIGHT}    def unary"),
    ),
    _infer("dtypes", "twice as much under autocast", "kernel * premise * (1 + torch.is_autocast_enabled('cpu'))"),
    _flaw(
        "modes", "state-operator", "drops out, and scales nothing up",
        (_FORWARD, f"{_FORWARD} * ((torch.rand_like(state.unary) >= self.rate) if self.training else 1)"),
        (_GATE, f"{_GATE}\n        self.rate = dims.dropout"),
    ),
    _flaw(
        "calls", "augmenter", "a copy that follows the values of what it was copied from",
        (_WEIGHTS, f"{_WEIGHTS}\n        self.now = lambda: self.weights"),
        (_GATED, _GATED.replace("self.weights[", "self.now()[")),
    ),
    _flaw(
        "seed", "augmenter", "begins with numbers of numpy's",
        (_WORDS, f'    def begin(self):\n        self.weights.data += __import__("numpy").random.rand()\n\n{_WORDS}'),
    ),
    _flaw(
        "save_load", "augmenter", "reads a file again when it is loaded",
        (_WEIGHTS, f"{_WEIGHTS}\n        {_READ}"),
        (_GATED, _GATED.replace("embeddings", "embeddings * self.factor")),
        (_WORDS, f"{_FILE}{_WORDS}"),
        ("class Flawed(Augmenter):", f"{_FILE_OPTIONS}class Flawed(Augmenter):\n    Options = FileOptions"),
    ),
    _flaw(
        "padding", "augmenter", "counts padding where there are no token types",
        (_GATED, _GATED.replace("embeddings", f"(embeddings - {_BARE} * embeddings.mean(1, True))")),
    ),
    _flaw(
        "shapes", "scope-position", "one of the words that its validator lists",
        ("<= self.width", "<= (self.width if self.options.way == 'near' else 1 / 0)"),
        ("    width: int", f"    {_IN}\n    width: int"),
    ),
    _flaw(
        "shapes", "scope-position", "two options that do not meet",
        ("<= self.width", "<= (1 / 0 if self.options.far and self.options.wide else self.width)"),
        ("    width: int", "    far: bool = False\n    wide: bool = False\n    width: int"),
    ),
    _flaw(
        "locality", "operator", "says that it sums over tokens, and does not",
        ('scope_rule = "pairwise"', 'scope_rule = "reduce"'),
    ),
    _infer("locality", "a sum over the tokens that a rule hides", "kernel * premise.sum(2, keepdim=True)"),
    _flaw("reference", "augmenter", "states another equation", ('["weights"][word]', '["weights"][0]')),
    _flaw(
        "reference", "head", "states another loss",
        ("return sum(losses) / len(losses)", "return 1.0"),
    ),
    _flaw(
        "reference", "operator", "a map that has a bias, which the equation lacks",
        ("parameters, name, dims.binary)", "parameters, name, dims.binary, bias=False)"),
    ),
    _flaw(
        "targets", "head", "labels of -100 that count",
        ('"int64 [b]: the grade, from 0"', '"int64 [b]: the grade, from 0; -100 where it does not count"'),
        ("check_labels(labels, logits.shape[:1], self.grades)", "pass"),
    ),
    _flaw(
        "task_batches", "task", "a stream without an end, in one order",
        ("in order.split(self.options.batch_size):", "in iter(lambda: order[: self.options.batch_size], None):"),
        ("manual_seed(1000 * seed + epoch)", "manual_seed(seed)"),
    ),
    _flaw(
        "loss", "head", "a loss of each row, of labels in a form of its own",
        ("    def loss(", f"{_LABELS}    def loss("),
        ("check_labels(labels, logits.shape[:1], self.grades)", "labels = labels[:, 0]"),
        (".to(logits.dtype))", '.to(logits.dtype), reduction="none")'),
    ),
    _flaw(
        "kernel", "operator", "a gradient that stops in the kernel",
        ("    def reference(self, kernel", _KERNEL + "    def reference(self, kernel"),
    ),
    _flaw("declaration", "operator", "another typing", ('typing = "B <- B x B"', 'typing = "B <- U x B"')),
    _flaw("shapes", "head", "one logit too many", ('dims=("batch", self.grades - 1)', 'dims=("batch", self.grades)')),
    _infer("dtypes", "float64 whatever the model is in", "(kernel * premise).double()"),
    _flaw("options", "scope-position", "an option is ignored", ("self.width = options.width", "self.width = 8")),
    _flaw(
        "defaults", "scope-position", "the default does not work",
        ("self.width = options.width", "self.width = {1: 1}[options.width]"),
    ),
    _flaw(
        "inputs", "augmenter", "ids below zero",
        ('tokens.inputs["input_ids"])]', 'tokens.inputs["input_ids"] - 1)]'),
    ),
    _flaw("needs", "head", "reads what it does not ask for", ('needs = frozenset({"pooled"})', "needs = frozenset()")),
    _flaw(
        "needs", "head", "reads word embeddings that it is not tied to",
        ("self.dense(encoded.pooled)", "self.dense(encoded.pooled) + encoded.embeddings.sum()"),
    ),
    _flaw(
        "shapes", "scope-position", "restricts no layer",
        ("    def scope(", "    def holds_in(self, layer):\n        return False\n\n    def scope("),
    ),
    _flaw(
        "shapes", "scope-position", "counts tokens from -1",
        ("    def scope(", "    def index(self, tokens):\n        return tokens.index - 1\n\n    def scope("),
    ),
    _flaw("words", "augmenter", "words stay", ("return embeddings * self.weights\n", "return embeddings\n")),
    _infer("reference", "a sum for a product", "kernel + premise"),
    _flaw(
        "scale", "stub", "a sum over channels that nothing scales",
        (
            "premise.transpose(1, 2)).transpose(1, 2)",
            "premise.sum(3, keepdim=True).transpose(1, 2)).transpose(1, 2) + 0 * premise",
        ),
    ),
    _infer("purity", "changes its input", "kernel.mul_(premise)"),
    _flaw(
        "calls", "operator", "knows the longest text that it has seen",
        (
            "return kernel * premise\n",
            'self.most = max(vars(self).get("most", 0), len(kernel[0]))\n'
            "        return kernel * premise * (self.most == len(kernel[0]))\n",
        ),
    ),
    _flaw(
        "long_sequences", "unary-position", "counts in eight bits",
        ("tokens.rows(tokens.index).to(", "tokens.rows(tokens.index).to(torch.uint8).to("),
    ),
    _infer("limits", "texts of 255 tokens at most", "kernel * premise * (kernel.shape[1] < 256)"),
    _infer("batch", "depends on the size of the batch", "kernel * premise * len(kernel)"),
    _infer("token_permutation", "depends on the order of tokens", "kernel * premise.cumsum(1)"),
    _infer("padding", "a mean over padding", "kernel * premise.mean(1, keepdim=True)"),
    _flaw("outside", "architecture", "atoms of padding", ("unary = scope.zero_unary(unary)\n", "unary = unary + 1\n")),
    _infer("no_look_ahead", "a sum over what follows", "kernel * premise.flip(1).cumsum(1).flip(1)"),
    _flaw(
        "empty_rows", "stub", "zero divided by zero",
        ("return (kernel.permute", "kernel = kernel / kernel.sum(2, keepdim=True)\n        return (kernel.permute"),
    ),
    _infer("finite", "an exponential of what it reads", "kernel * premise.exp() / premise.exp() * premise"),
    _infer("compiled", "another way when compiled", "kernel * premise * (1 + torch.compiler.is_compiling())"),
    _infer("precision", "float32 inside", "(kernel.float() * premise.float()).to(kernel.dtype)"),
    _infer("devices", "a constant on the CPU", "kernel * premise * torch.ones(len(kernel[0]), 1).to(kernel.dtype)"),
    _infer("gradients", "no gradient of the kernel", "kernel.detach() * premise"),
    _flaw(
        "learning", "augmenter", "begins where nothing moves it",
        (_WEIGHTS, _WEIGHTS.replace("torch.ones", "-torch.ones")),
        ('["input_ids"])]', '["input_ids"])].relu()'),
    ),
    _flaw("modes", "state-operator", "another factor in training", (_FORWARD, f"{_FORWARD} * (1 + self.training)")),
    _flaw(
        "terms", "state-operator", "a term for each token",
        (_FORWARD, f"{_FORWARD}\n        self.size = unary.square()"),
        ("    def forward", '    def terms(self):\n        return {"size": self.size}\n\n    def forward'),
    ),
    _flaw("loss", "head", "nothing is known of its labels", ('"int64 [b]: the grade, from 0"', '""')),
    _flaw("loss_numerics", "head", "a loss in float32", ("at_least_float32(outputs[", "torch.Tensor.float(outputs[")),
    _flaw("targets", "head", "a sum over rows", (".to(logits.dtype))", '.to(logits.dtype), reduction="sum")')),
    _flaw("seed", "augmenter", "seeds the generator of all", (_WEIGHTS, f"{_WEIGHTS}\n        torch.manual_seed(0)")),
    _flaw(
        "state_dict", "augmenter", "a factor that is not in the state dict",
        (_WEIGHTS, f"{_WEIGHTS}\n        self.factor = torch.randn(())"),
        (_GATED, _GATED.replace("embeddings", "embeddings * self.factor")),
    ),
    _flaw(
        "save_load", "augmenter", "another factor in each folder",
        (_WEIGHTS, f'{_WEIGHTS}\n        self.factor = len(__import__("os").getcwd())'),
        (_GATED, _GATED.replace("embeddings", "embeddings * self.factor")),
    ),
    _flaw(
        "memory", "stub", "does not cache what it attends to",
        ("shape=self.output().shape, cached=True", "shape=self.output().shape"),
    ),
    _flaw(
        "onnx", "operator", "the length of its example in the graph",
        (
            "return kernel * premise\n",
            "return torch.stack([k * v for k, v in zip(kernel.unbind(1), premise.unbind(1))], 1)\n",
        ),
    ),
    _infer(
        "tensorrt", "adds in a scatter",
        "torch.zeros_like(kernel).scatter_add(1, torch.ones_like(kernel).long().cumsum(1) - 1, kernel * premise)",
    ),
    _flaw(
        "scopes", "architecture", "attends to everything",
        ("weights = its_scope.softmax(logits)", "weights = logits + 1"),
    ),
    _flaw(
        "scopes", "architecture", "tells heads the places with padding",
        ("words()), tokens", "words()), replace(tokens, index=torch.arange(tokens.length)[None])"),
        ("from typing import Literal", "from dataclasses import replace\nfrom typing import Literal"),
    ),
    _flaw(
        "places", "architecture", "word embeddings that no augmenter changes",
        ("scope, self.input.words())", "scope, torch.zeros_like(self.input.words()))"),
    ),
    _flaw(
        "dims", "architecture", "a size that nothing depends on",
        (
            "    unary: int = field(validator=validators.ge(1))\n",
            "    unary: int = field(validator=validators.ge(1))\n    spare: int = 3\n",
        ),
    ),
    _flaw(
        "initial_values", "architecture", "begins with the root of the width in place of its reciprocal",
        (
            "self.norm = Norm(width)\n",
            "self.norm = Norm(width)\n        [nn.init.normal_(each.weight, std=width**0.5) for each in self.layers]\n",
        ),
    ),
    _flaw(
        "reference", "architecture", "counts tokens from two",
        ("zero_unary(unary)\n", "zero_unary((tokens.index + 2).unsqueeze(2).to(unary).expand_as(unary))\n"),
        ("self.pooler(unary, tokens.real)", "None"), ('frozenset({"pooled"})', "frozenset()"),
        ("unary_output(self.width), pooled_output(self.width)", "(unary_output(self.width),)"),
        ("    def forward(", f"{_COUNTED}    def forward("),
    ),
    _flaw(
        "fused", "architecture", "another network where it is fused",
        ("unary = scope.zero_unary(unary)\n", "unary = scope.zero_unary(unary) * (1 + 1e-6 * self.input.plan.fuse)\n"),
    ),
    _flaw(
        "export_report", "exporter", "reports another file",
        (_PLACED, f"return Report(file=path.parent, passed={_PLACED.removeprefix('return ')}.passed)"),
    ),
    _flaw(
        "export_overwrites", "exporter", "removes another file",
        (_PLACED, f'(path.parent / "notes.txt").unlink(missing_ok=True)\n        {_PLACED}'),
    ),
    _flaw(
        "export_failure", "exporter", "opens the file before it has its content",
        (_PLACED, f'path.write_bytes(b"")\n        {_PLACED}'),
    ),
    _flaw(
        "export_options", "exporter", "an option is ignored",
        ("(np.savez_compressed if self.options.compressed else np.savez)", "np.savez"),
    ),
    _flaw(
        "export_options", "exporter", "an option is read, and changes nothing",
        ("np.savez_compressed if", "np.savez if"),
    ),
    _flaw(
        "export_options", "exporter", "two choices of three do the same",
        ("np.savez_compressed if self.options.compressed", "np.savez_compressed if self.options.packing != 'no'"),
        (_BOOLEAN, "packing: Literal['no', 'fast', 'small'] = 'no'"),
        ("import numpy", "from typing import Literal\n\nimport numpy"),
    ),
    _flaw(
        "export_report", "exporter", "names a folder of this machine",
        ("(file, **arrays)", "(file, **arrays, **{np.__name__: np.array(torch.__file__.encode())})"),
        ("for name in arrays.files}", "for name in arrays.files if name != np.__name__}"),
    ),
    _flaw(
        "export_options", "exporter", "a choice that writes other weights",
        (_VERIFIED, f"{_UNVERIFIED} if self.options.compressed else {_VERIFIED.removeprefix('return ')}"),
        ("tensor.detach()", "tensor.detach().mul(1 + self.options.compressed)"),
    ),
    _flaw(
        "export_values", "exporter", "a weight that is not the model's",
        (_VERIFIED, _UNVERIFIED), ("tensor.detach()", "tensor.detach().relu()"),
    ),
    _flaw(
        "export_values", "exporter", "outputs by another name", (_VERIFIED, _UNVERIFIED),
        (_SHELL, 'return lambda **inputs: {f"my_{name}": value for name, value in shell(**inputs).items()}\n'),
    ),
    _flaw(
        "export_values", "exporter", "an output too few, in silence", (_VERIFIED, _UNVERIFIED),
        (_SHELL, "return CalledFile(shell, path, Signature(shell.signature.inputs, shell.signature.outputs[:1]))\n"),
        (_TORCH, f"{_TORCH}from peirce.parts import Signature\nfrom peirce_export.reading import CalledFile\n"),
    ),
    _flaw(
        "export_values", "exporter", "the length of its example", (_VERIFIED, _UNVERIFIED),
        (_SHELL, "return lambda **inputs: shell(**{name: value[:, :5] for name, value in inputs.items()})\n"),
    ),
    _flaw(
        "export_values", "exporter", "a tolerance that hides mistakes",
        (_VERIFIED, "return verify_read(self.read, fresh, model, tolerance=0.1)"),
    ),
    _flaw("export_verification", "exporter", "does not read what it wrote", (_VERIFIED, _UNVERIFIED)),
    _flaw(
        "export_verification", "exporter", "a runtime that passes every file",
        ("class Flawed(Exporter)", f"{_LAX}class Flawed(Exporter)"),
        (_SHELL, "return CalledFile(shell, path, shell.signature)\n"),
        (_TORCH, f"{_TORCH}from peirce_export import Runtime\nfrom peirce_export.reading import CalledFile\n"),
    ),
    _flaw(
        "export_verification", "exporter", "looks at the first output alone",
        (_VERIFIED, _FIRST), (_TORCH, f"{_TORCH}from copy import deepcopy\nfrom peirce import ExportError\n"),
    ),
    _flaw(
        "task_data", "task", "other data each time",
        ("generator = torch.Generator().manual_seed(0)", "generator = torch.default_generator"),
    ),
    _flaw(
        "task_process", "task", "the order of a set",
        ("list(range(self.options.tokens))", "list({str(each) for each in range(self.options.tokens)})"),
    ),
    _flaw(
        "task_splits", "task", "each split is drawn from one seed",
        ("self._drawn(generator) for", "self._drawn(torch.Generator().manual_seed(0)) for"),
    ),
    _flaw("task_batches", "task", "one order of rows", ("manual_seed(1000 * seed + epoch)", "manual_seed(seed)")),
    _flaw("task_terms", "task", "changes its batch", (_LOSS, _LOSS.replace('["labels"]', '["labels"].mul_(0)'))),
    _flaw(
        "task_terms", "task", "a mean over no target",
        (_LOSS, _CROSS_ENTROPY),
        ("    def metrics(", f"{_TARGETS}    def metrics("),
    ),
    _flaw(
        "task_metrics", "task", "metrics of another split",
        ("ids, labels = data[split]\n        device", 'ids, labels = data["train"]\n        device'),
    ),
    _flaw(
        "task_metrics", "task", "counts what a model answers at padding",
        ("ids[::2, -1] = ids[::2, 0]", "ids[::2, -1] = 0"),
        ("(ids[:, -1] == ids[:, 0]).long()", "(ids == ids[:, :1]).long()"),
        ('heads": [{"use": "classification"', 'heads": [{"use": "token_classification"'),
        (_LOSS, _LOSS.replace('"classification"', '"token_classification"')),
        (
            'model(input_ids=ids.to(device))["classification_logits"].argmax(1)',
            'model(input_ids=ids, attention_mask=(ids > 0).long())["token_classification_logits"].argmax(2)',
        ),
    ),
    _flaw(
        "task_reference", "task", "a label of another token",
        ("return ids, (ids[:, -1] == ids[:, 0])", "return ids, (ids[:, -2] == ids[:, 0])"),
    ),
    _flaw("task_reference", "task", "twice the loss", (_LOSS, _LOSS.replace("return ", "return 2 * "))),
    _flaw("task_reference", "task", "the share of what is wrong", ("(guesses == labels)", "(guesses != labels)")),
    _flaw(
        "task_reference", "task", "a vocabulary that is too large",
        ('vocabulary": 1 + self.options.tokens,\n', 'vocabulary": 2 + self.options.tokens,\n'),
    ),
    _flaw(
        "task_reference", "task", "a mode that is not given back",
        ("        device = next", "        model.eval()\n        device = next"),
    ),
    _flaw(
        "task_reference", "task", "a split by any name",
        (_GUARDED, 'ids, labels = data.get(split, data["test"])\n        order'),
    ),
    _flaw("task_training", "task", "a loss without a gradient", (_LOSS, f"{_LOSS}.detach().requires_grad_()")),
    _flaw(
        "task_options", "task", "an option is read, and changes nothing",
        ("    batch_size: int", "    even: bool = False\n    batch_size: int"),
        ("        order = torch", "        _ = self.options.even\n        order = torch"),
    ),
    _flaw("task_options", "task", "an option is ignored", ("order.split(self.options.batch_size)", "order.split(32)")),
    _flaw(
        "task_errors", "task", "a damaged file ends in a traceback",
        ("Generator().manual_seed(0)", "Generator().manual_seed(int(Path(self.options.file).read_text()))"),
        ("import torch\n", "from pathlib import Path\n\nimport torch\n"),
        ("    batch_size: int", '    file: str = ""\n    batch_size: int'),
        (
            "    def prepare(",
            '    @classmethod\n    def example_in(cls, folder):\n        (folder / "seed").write_text("7")\n'
            '        return {"file": str(folder / "seed")}\n\n    def prepare(',
        ),
    ),
)  # fmt: skip
"""At least one for each check of parts."""


BY_NAME = {check.name: check for check in CHECKS}


def changed(text: str, changes: tuple[Change, ...]) -> str:
    """A source after changes, each of something that stands in it once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def case_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Case]:
    """Makes the part of a flaw after some changes of its source, in a module that another process can import, too."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(flaw: Flaw, changes: tuple[Change, ...]) -> Case:
        text, rest = (
            NewPart(flaw.source, "flawed").text if flaw.source != "stub" else inspect.getsource(stub_parts),
            "",
        )
        if flaw.source == "stub":  # whose two operators have lines in common
            text, name, rest = text.partition("class Score")
            rest = name + rest
        code = changed(text, changes) + rest
        if "import torch\n" not in code:
            code = code.replace("from peirce.parts", "import torch\nfrom peirce.parts", 1)
        module = f"flawed_{len(changes)}"
        (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, module, raising=False)
        invalidate_caches()
        exported = ["peirce_export.plugin"] if flaw.check in ("onnx", "tensorrt") else []
        heads = ["peirce_basics.plugin"] if flaw.source == "task" else []
        registry = with_stub_parts(Registry.of(module, *exported, *heads))
        return Case(registry.entry(*flaw.part), registry)

    return make


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.check)
def test_a_check_finds_its_flaw_and_nothing_without_it(
    flaw: Flaw, case_of: Callable[..., Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if flaw.check == "tensorrt" and find_spec("tensorrt_rtx") is None:
        pytest.skip("`tox -e tensorrt` has TensorRT for RTX")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    check = BY_NAME[flaw.check]
    with pytest.raises(BrokenError) as failure:
        check.run(case_of(flaw, flaw.changes))
    assert flaw.part[1] in str(failure.value)
    section = f'read on:  the guide\'s page of conformance checks, "Check: {flaw.check.replace("_", " ")}"'
    assert section in str(failure.value)
    kept = re.search(r"The file that failed is kept: (.+)", str(failure.value))
    assert (kept is not None and Path(kept[1]).is_file()) is (flaw.check == "onnx")
    with suppress(NotApplicableError):  # where the part without the flaw has nothing of the kind
        check.run(case_of(flaw, flaw.changes[1:] if flaw.check == "defaults" else ()))


_CALLED = ("premise: Tensor, scope: Scope)", "premise: Tensor)")
_OF_OPTIONS = ("return kernel * premise\n", "return kernel * premise * self.options.factor\n")
_UNBIASED = ('"""u: [b, x, y, d], to the relations."""\n        return Writer(', "return Writer(bias=False, ")
NAMED = (
    ("shapes", "operator", _CALLED, r"infer takes \(kernel, premise\), .* with \(kernel, premise, scope\)"),
    ("shapes", "operator", _OF_OPTIONS, "no option 'factor': the part has no line `Options =`"),
    ("options", "scope-position", ("= options.width", "= 8"), "no line of .*py reads 'width'"),
    ("options", "scope-position", ("<= self.width", "<= 8"), "read and then not used: .*: self.width = options.width"),
    ("reference", "operator", ("return kernel", "return -kernel"), r"-1 times that everywhere[\s\S]*: return -kernel"),
    ("reference", "operator", _UNBIASED, "`reference` reads the parameter 'output.bias', and the part has .*weight"),
    (
        "reference", "head", ("unsqueeze(1) > steps", "unsqueeze(1) >= steps"),
        r"of: +Flawed.loss, [\s\S]*a term that differs: .*return F.binary_cross_entropy",
    ),
    (
        "limits", "augmenter", ("return embeddings * self.weights[", "return -embeddings * self.weights["),
        r"against `reference`: (?![\s\S]*cause:)",
    ),
    ("locality", "operator", ('rule = "pairwise"', 'rule = "reduce"'), "nothing is summed: .*: scope_rule = "),
    ("padding", "operator", ("return kernel * premise\n", "return [][0]\n"), r"IndexError: (?![\s\S]*cause:)"),
)  # fmt: skip
"""A check, what is changed of a template, and a pattern of what the failure says."""


@pytest.mark.parametrize(("check", "source", "change", "words"), NAMED)
def test_a_failure_names_the_cause_and_the_line(
    check: str, source: str, change: Change, words: str, case_of: Callable[..., Case]
) -> None:
    flaw = _flaw(check, source, words, change)
    with pytest.raises(BrokenError) as failure:
        BY_NAME[check].run(case_of(flaw, flaw.changes))
    assert re.search(words, str(failure.value)), str(failure.value)


@pytest.mark.parametrize(
    "flaw", [each for each in FLAWS if each.source == "exporter" or each.check == "task_reference"],
    ids=lambda flaw: flaw.about,
)  # fmt: skip
def test_a_flaw_of_a_whole_part_is_found_by_its_check_alone(flaw: Flaw, case_of: Callable[..., Case]) -> None:
    case, failed = case_of(flaw, flaw.changes), set()
    for check in CHECKS:
        quick = not check.slow or check.name == flaw.check
        if check.name.startswith(("export_", "task_")) and flaw.part[0] in check.kinds and quick:
            with suppress(NotApplicableError):
                try:
                    check.run(case)
                except BrokenError:
                    failed.add(check.name)
    assert failed == {flaw.check}


def test_an_endless_stream_gives_each_row_that_it_states(case_of: Callable[..., Case]) -> None:
    stream = ("in order.split(self.options.batch_size):", "in rounds(order, self.options.batch_size):")
    rounds = (
        "class Flawed(",
        "def rounds(order, size):\n    while True:\n        yield from order.split(size)\n\n\nclass Flawed(",
    )
    lost = ("yield from order.split(size)", "yield from order[1:].split(size)")
    check = BY_NAME["task_reference"]
    flaw = _flaw("task_reference", "task", "a stream without an end", rounds, stream)
    check.run(case_of(flaw, flaw.changes))
    with pytest.raises(BrokenError, match=r"no such row left|in no batch"):
        check.run(case_of(flaw, (*flaw.changes, lost)))


def test_an_exporter_of_the_contract_before_is_not_read_back_and_passes(
    case_of: Callable[..., Case],
) -> None:
    changes = (_VERIFIED, _UNVERIFIED), ('    suffix = ".npz"\n', ""), ("def read(", "def _read(")
    case = case_of(_flaw("export_values", "exporter", "of the contract before", *changes), changes)
    for name in ("export_report", "export_options", "export_overwrites", "export_failure"):
        BY_NAME[name].run(case)
    for name in ("export_values", "export_verification"):
        with pytest.raises(NotRunError, match=r"states no `suffix`.* from the next release"):
            BY_NAME[name].run(case)


def test_every_check_of_parts_has_a_flaw() -> None:
    of_parts = {check.name for check in CHECKS if not {*check.kinds}.isdisjoint(KINDS)}
    assert {flaw.check for flaw in FLAWS} == of_parts - {"record"}  # which has tests of its own


def test_a_failure_shows_the_smallest_example_and_the_command_that_repeats_it(
    case_of: Callable[..., Case],
) -> None:
    flaw = next(each for each in FLAWS if each.about == "a mean over padding")
    with pytest.raises(BrokenError) as failure:
        BY_NAME["padding"].run(case_of(flaw, flaw.changes))
    message = str(failure.value)
    assert "batch 1, length 2" in message
    assert "heads 1, head_size 1" in message
    assert "Falsifying example" not in message
    assert "again:    peirce plugins check module:flawed_1 -k 'padding[operators.flawed]'" in message
