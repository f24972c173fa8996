"""Mutants of a part's source: the same code but for one slip, of the kinds that authors make with tensors.

What is changed is what a part computes and what it declares of tensors and sizes. Texts, also those that are printed or
only show how far a part is, names, annotations, options and their defaults, small data, guards that only raise or, as
`check`, only say why a part is refused, and the references that the suite holds a part to, with their functions
`plain_...`, stay as they are.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from functools import cache, partial
from inspect import getsource
from types import CodeType
from typing import Any

from attrs import evolve, frozen

from peirce.model import Exporter, Task
from peirce.parts import Architecture

KEPT_METHODS = {
    "reference", "reference_of_atoms", "reference_loss", "reference_metrics", "reference_settings", "example_in",
    "example_cases", "example_rows", "example_inputs", "example_labels", "check",
    "__repr__",
}  # fmt: skip
KEPT_NAMES = {
    "name", "letter", "source", "labels", "meaning", "example", "expected_failures", "renamed", "Options", "api",
    "__slots__",
}  # fmt: skip
KEPT_KEYWORDS = {"meaning", "name", "tokens_last", "strict", "persistent", "progress"}
"""Texts, a wish for a layout in memory, which changes no value, and what only guards."""
EITHER_WAY = {"transpose", "minimum", "maximum", "min", "max", "logaddexp", "swapaxes"}
"""Calls whose arguments may stand in either order."""
OPERATORS: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
COMPARISONS: Mapping[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
CALLS = {
    "sum": "mean", "mean": "sum", "amax": "amin", "amin": "amax", "max": "min", "min": "max", "argmax": "argmin",
    "any": "all", "all": "any", "zeros": "ones", "ones": "zeros", "zeros_like": "ones_like", "ones_like": "zeros_like",
    "sin": "cos", "cos": "sin", "relu": "gelu", "gelu": "relu", "silu": "relu", "tanh": "sigmoid", "sigmoid": "tanh",
    "clamp_min": "clamp_max", "clamp_max": "clamp_min", "log": "log1p", "exp": "expm1", "logsumexp": "amax",
    "softmax": "log_softmax", "cumsum": "cumprod", "triu": "tril", "tril": "triu", "floor": "ceil", "rsqrt": "sqrt",
    "repeat_interleave": "repeat", "lgamma": "digamma", "digamma": "lgamma",
}  # fmt: skip
"""Other reductions and other functions."""
TEXTS = {
    "U": "B", "B": "U", "softmax": "none", "reduce": "pairwise", "pairwise": "reduce", "score": "value",
    "value": "score", "batch": "length", "length": "batch", "int64": "float", "float": "int64", "bool": "int64",
}  # fmt: skip
"""What declarations are made of."""
SIZES = {
    "unary": "binary", "binary": "unary", "heads": "head_size", "head_size": "heads", "pooled": "unary",
    "feedforward_unary": "unary", "feedforward_binary": "binary", "recurrent": "unary",
}  # fmt: skip
SEEN: set[str] = set()
"""The helpers below that met a tensor which they changed."""


def _detached(value: Any) -> Any:
    """The value without its gradient, where it has one."""
    if not getattr(value, "requires_grad", False) or not hasattr(value, "detach"):
        return value
    SEEN.add("_detached")
    return value.detach()


def _rounded(value: Any) -> Any:
    """The value rounded to float32 and back, where it is float64."""
    if str(getattr(value, "dtype", "")) != "torch.float64":
        return value
    SEEN.add("_rounded")
    return value.float().double()


def _reached(value: Any = None) -> Any:
    """The value, where a slip stands."""
    SEEN.add("_reached")
    return value


CHANGES = {"_detached": _detached, "_rounded": _rounded}
HELPERS = {**CHANGES, "_reached": _reached}
"""What the code of mutants may call."""


@frozen
class Mutant:
    """One change of one module.

    Args:
        module: the module's name.
        where: the function or class that the change is in.
        change: the old code and the new.
        helper: the helper that it calls; the mutant is none where the helper meets nothing to change.
        new: what stands in the place.
        compiled: the module's code with a node in the place; None where that is no Python.
    """

    module: str
    where: str
    change: str
    helper: str
    new: ast.AST
    compiled: Callable[[ast.AST], CodeType | None]

    @property
    def code(self) -> CodeType | None:
        """The changed module."""
        return self.compiled(self.new)

    @property
    def marked(self) -> Mutant:
        """The same change, which notes in `SEEN` when it runs."""
        return evolve(self, new=_marked(self.new))

    @property
    def key(self) -> str:
        """What the mutant is known by, whatever the line."""
        return f"{self.module}.{self.where}: {self.change}"


@cache
def regions(part: type[Any]) -> dict[str, list[ast.AST]]:
    """The classes and functions of a part's package that the part is made of, by module, the part's own module last.

    Of an architecture, a task or an exporter those of the modules of its class and its bases: what they call beyond
    has tests of its own, as a tokenizer has.
    """
    package, found = part.__module__.split(".")[0], {}
    own = (
        {each.__module__ for each in part.__mro__}
        if issubclass(part, (Architecture, Exporter, Task))
        else None
    )
    trees: dict[str, ast.Module] = {}
    wanted = [(part.__module__, part.__name__)]
    for module, name in wanted:
        if module not in trees:
            trees[module] = ast.parse(getsource(sys.modules[module]))
        tree = trees[module]
        for node in tree.body:
            near = isinstance(node, ast.ImportFrom) and (own is None or node.module in own)
            if isinstance(node, ast.ImportFrom) and near and (node.module or "").split(".")[0] == package:
                for alias in node.names:
                    if (alias.asname or alias.name) == name and node.module in sys.modules:
                        wanted += [each for each in [(node.module, alias.name)] if each not in wanted]
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name != name or _kept(node):
                continue
            if any(
                "frozen" in ast.unparse(each) or "define" in ast.unparse(each) for each in node.decorator_list
            ):
                continue  # options
            found.setdefault(module, []).append(node)
            used = {each.id for each in _run(node) if isinstance(each, ast.Name)}
            wanted += [(module, each) for each in sorted(used) if (module, each) not in wanted]
    return {module: found[module] for module in reversed(found)}


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a class or function, but those of what is kept."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.FunctionDef) and _kept(child)):
            yield from _run(child)


def _overridden(part: type[Any], owner: ast.AST, method: ast.AST, others: str) -> bool:
    """Whether a base's method is never called for a part, which has its own."""
    if not isinstance(owner, ast.ClassDef) or not isinstance(method, ast.FunctionDef):
        return False
    order = [each.__name__ for each in part.__mro__ if method.name in vars(each)]
    return owner.name in order[1:] and f"super().{method.name}(" not in others


def mutants(part: type[Any], options: Any) -> Iterator[Mutant]:
    """Every mutant of a part.

    Args:
        part: the class.
        options: those that stand where an option is forgotten.
    """
    found = regions(part)
    said = "\n".join(ast.unparse(node) for nodes in found.values() for node in nodes)
    for module, nodes in found.items():
        tree = ast.parse(getsource(sys.modules[module]))
        names = {node.name for node in nodes}  # type: ignore[attr-defined]
        known: set[str] = set()
        for region in [
            n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name in names
        ]:
            never = {each for each in ast.iter_child_nodes(region) if _overridden(part, region, each, said)}
            for where, parent, field, index, old in _sites(region, region.name, never):
                for helper, new in _edits(old, options):
                    if ast.unparse(new) == ast.unparse(old):
                        helper = "_same"  # it is drawn, and counts for none
                    change = f"{_shown(old)} -> {_shown(new)}"
                    key, number = f"{where}: {change}", 2
                    while key in known:  # the same slip at another place of the function
                        key, number = f"{where} ({number}): {change}", number + 1
                    known.add(key)
                    compiled = partial(_compiled, module, tree, old, partial(_put, parent, field, index))
                    yield Mutant(module, key.partition(": ")[0], change, helper, new, compiled)


def _compiled(
    module: str, tree: ast.Module, old: ast.AST, put: Callable[[ast.AST], None], new: ast.AST
) -> CodeType | None:
    """The code of a module with a new node in place of the old one; None where that is no Python."""
    put(ast.copy_location(new, old))
    try:
        return compile(ast.fix_missing_locations(tree), f"<mutant of {module}>", "exec")
    except (SyntaxError, ValueError, TypeError):
        return None
    finally:
        put(old)


def _marked(node: ast.AST) -> ast.AST:
    """A slip that notes when it is run."""

    def call(*values: ast.expr) -> ast.expr:
        return ast.Call(ast.Name("_reached", ast.Load()), [*values], [])

    match node:
        case ast.Pass():
            return ast.Expr(call())
        case ast.If(test=test, body=body, orelse=orelse):
            return ast.If(call(test), body, orelse)
        case ast.comprehension(target=target, iter=each, ifs=ifs, is_async=is_async):
            return ast.comprehension(target, call(each), ifs, is_async)
        case ast.Slice(lower=lower, upper=upper, step=step):
            return ast.Slice(call(lower or ast.Constant(None)), upper, step)
        case ast.Assign() | ast.Return() | ast.AugAssign():
            made = deepcopy(node)
            made.value = call(made.value)  # type: ignore[arg-type]
            return made
        case ast.expr():
            return call(node)
    return node


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:160]


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _sites(
    node: ast.AST, where: str, never: Collection[ast.AST] = ()
) -> Iterator[tuple[str, ast.AST, str, int | None, ast.AST]]:
    """Every node that may be changed, with its parent, field and index; none inside of those that never run."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "type_comment"):
            continue
        several = isinstance(value, list)
        for index, child in enumerate(value if several else [value]):
            if not isinstance(child, ast.AST) or child in never or _kept(child):
                continue
            inside = where
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inside = f"{where}.{child.name}"
            else:
                yield where, node, field, index if several else None, child
            yield from _sites(child, inside)


def _kept(node: ast.AST) -> bool:
    """Whether a node is a text, a guard, a declaration of names, or what the suite holds the part to."""
    match node:
        case (
            ast.Raise()
            | ast.Assert()
            | ast.JoinedStr()
            | ast.Import()
            | ast.ImportFrom()
            | ast.Expr(ast.Constant())
        ):
            return True
        case ast.FunctionDef(name=name):
            return name in KEPT_METHODS or name.lstrip("_").startswith("plain_")
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in KEPT_NAMES
        case ast.If(body=body, orelse=[]):
            return isinstance(body[-1], ast.Raise) or (isinstance(body[-1], ast.If) and _kept(body[-1]))
        case ast.keyword(arg=name):
            return name in KEPT_KEYWORDS
        case ast.Expr(ast.Call(ast.Attribute(ast.Call(ast.Name("super"))))):
            return True
        case ast.Expr(ast.Call(ast.Name(id=name))):
            return name.startswith(("check_", "require", "say", "print_line", "_print_line"))
        case (
            ast.arguments() | ast.operator() | ast.cmpop() | ast.expr_context() | ast.boolop() | ast.unaryop()
        ):
            return True
    return False


def _edits(node: ast.AST, options: Any) -> Iterator[tuple[str, ast.AST]]:
    """The slips at one node, each with the helper that it calls."""
    for new in _changed(node):
        yield "", new
    match node:
        case ast.Attribute(value=ast.Attribute(attr="options") | ast.Name(id="options"), attr=name):
            value = getattr(options, name, None)
            if isinstance(value, bool | int | float | str):
                yield "", ast.Constant(value)
        case ast.Assign(targets=[ast.Name()], value=value) | ast.Return(value=ast.expr() as value):
            if not isinstance(
                value, ast.Constant | ast.Dict | ast.Compare | ast.BoolOp | ast.List | ast.Tuple
            ):
                for helper in CHANGES:
                    new = deepcopy(node)
                    new.value = ast.Call(ast.Name(helper, ast.Load()), [value], [])  # type: ignore[attr-defined]
                    yield helper, new
        case ast.Dict(keys=keys, values=values):
            for at, value in enumerate(values):
                for helper in CHANGES if not isinstance(value, ast.Constant) else ():
                    call = ast.Call(ast.Name(helper, ast.Load()), [value], [])
                    yield helper, ast.Dict(keys, [*values[:at], call, *values[at + 1 :]])


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            if any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in (left, right)):
                return
            if other := OPERATORS.get(type(op)):
                yield ast.BinOp(left, other(), right)  # type: ignore[arg-type]
            if isinstance(op, ast.Sub | ast.Div | ast.FloorDiv | ast.MatMult):
                yield ast.BinOp(right, op, left)
            if not isinstance(op, ast.MatMult):
                yield left
            if isinstance(op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
                yield right
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.Compare(left=left, ops=[op], comparators=comparators):
            for other in COMPARISONS.get(type(op), ()):
                yield ast.Compare(left, [other()], comparators)  # type: ignore[list-item]
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            yield values[0]
            yield values[-1]
        case ast.IfExp(body=body, orelse=orelse):
            yield body
            yield orelse
        case ast.If(body=body, orelse=orelse):
            yield ast.If(ast.Constant(True), body, orelse)
            yield ast.If(ast.Constant(False), body, orelse)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 2 if value else 1.0)
            yield ast.Constant(-value if value else -1.0)
        case ast.Constant(value=str(value)) if value in TEXTS:
            yield ast.Constant(TEXTS[value])
        case ast.Attribute(value=value, attr=name, ctx=ctx) if name in SIZES and ast.unparse(value).endswith(
            "dims"
        ):
            yield ast.Attribute(value, SIZES[name], ctx)
        case ast.Call():
            yield from _calls(node)
        case ast.Tuple(elts=elements, ctx=ast.Load()) | ast.List(elts=elements, ctx=ast.Load()):
            for i in range(len(elements) - 1):
                if not any(isinstance(each, ast.Starred) for each in elements[i : i + 2]):
                    swapped = [*elements[:i], elements[i + 1], elements[i], *elements[i + 2 :]]
                    yield type(node)(swapped, ast.Load())
        case ast.Set(elts=[_]):
            yield ast.Call(ast.Name("set", ast.Load()), [], [])
        case ast.Slice(lower=lower, upper=upper, step=step):
            for bound, new in ((lower, "lower"), (upper, "upper")):
                if bound is not None and not isinstance(bound, ast.Constant):
                    more = ast.BinOp(bound, ast.Add(), ast.Constant(1))
                    for value in (None, more):
                        yield ast.Slice(**{"lower": lower, "upper": upper, "step": step, new: value})
        case ast.comprehension(target=target, iter=each, ifs=[_, *_], is_async=is_async):
            yield ast.comprehension(target, each, [], is_async)
        case ast.AugAssign(target=target, op=op, value=value):
            yield ast.Pass()
            if other := OPERATORS.get(type(op)):
                yield ast.AugAssign(target, other(), value)  # type: ignore[arg-type]
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    function, arguments, keywords = node.func, node.args, node.keywords
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("super", "isinstance", "TensorSpec", "cast", "is_compiling"):
        return
    if name in CALLS:
        other = deepcopy(function)
        setattr(other, "attr" if isinstance(function, ast.Attribute) else "id", CALLS[name])
        yield ast.Call(other, arguments, keywords)
    if isinstance(function, ast.Attribute) and ast.unparse(function.value) not in (
        "torch",
        "F",
        "nn",
        "self",
        "math",
    ):
        yield function.value  # the call is left out
    if arguments and not isinstance(arguments[0], ast.Constant | ast.Starred | ast.GeneratorExp):
        yield arguments[0]
    for i in range(0 if name in EITHER_WAY else len(arguments) - 1):
        if not any(isinstance(each, ast.Starred) for each in arguments[i : i + 2]):
            swapped = [*arguments[:i], arguments[i + 1], arguments[i], *arguments[i + 2 :]]
            yield ast.Call(function, swapped, keywords)
    for i, keyword in enumerate(keywords):
        if keyword.arg not in KEPT_KEYWORDS:
            yield ast.Call(function, arguments, [*keywords[:i], *keywords[i + 1 :]])
    if name in ("range", "arange") and arguments and not isinstance(arguments[-1], ast.Constant):
        fewer = ast.BinOp(arguments[-1], ast.Sub(), ast.Constant(1))
        yield ast.Call(function, [*arguments[:-1], fewer], keywords)
