"""Formulas of docstrings as LaTeX: `u[h](x) = sum_a K[h](x,a) v[h](a)` becomes what KaTeX sets.

Docstrings write formulas in plain text: indices in brackets, `sum_a`, `**`, ` . ` for inner products. `display` takes
the formula that a text begins with, and `inline` finds those that stand within prose. `_is_math` decides what is a
symbol and what a word.
"""

from __future__ import annotations

import re

GREEK = ("alpha", "beta", "gamma", "delta", "Delta", "epsilon", "lambda", "psi", "sigma", "pi")
FUNCTIONS = (
    "softmax", "sigmoid", "tanh", "gelu", "relu", "silu", "MLP", "KL", "max", "min", "ln", "log", "sin", "cos",
    "bucket", "score", "value", "table", "norm", "operators", "bool", "floor", "sqrt", "conj", "dist", "sum", "Re",
)  # fmt: skip
NAMES = ("base", "clip", "Kr", "Qr")
JOINTS = ("and", "with")
SYMBOLS = {
    "+=": r"\mathrel{+}=", "-=": r"\mathrel{-}=", "<-": r"\leftarrow ", "<=": r"\le ", ">=": r"\ge ", "-+": r"\mp ",
    "*": r"\odot ", "·": r"\cdot ", "…": r"\ldots ", "...": r"\ldots ", "{": r"\{", "}": r"\}", "%": r"\%", ";": r";\,",
    "//": r"\mathbin{//}", "Kr": "K^r", "Qr": "Q^r",
}  # fmt: skip
ENDS = (",", ".", ":", ";")
OPEN = ("(", *ENDS, "-", "+", "/", "//", "*", "**", "=", "'s")
"""What a formula within prose does not end with; all but a parenthesis and a sign do not begin one either."""
_TOKEN = re.compile(
    r"\*\*|//|\+=|-=|<-|->|<=|>=|-\+|\.\.\.|'s\b|[A-Za-z](?:\w*[^\W_])?(?:'(?!s\b))?|_\w+|\d+(?:[.,]\d+)*|\s+|.",
    re.DOTALL,
)


def display(text: str) -> tuple[str, str]:
    """The formula that a text begins with, as LaTeX, and the rest of the text; `""` and all of it without one."""
    tokens = _tokens(text)
    depth, end, last = 0, len(tokens), 0
    for i, token in enumerate(tokens):
        depth += (token in "([{") - (token in ")]}")
        if depth == 0 and (token in ENDS or token == "and"):
            if _followed_by_space(tokens, i) and token != ",":
                end = i
                if token != "and":
                    break
                end = len(tokens)
            last = i
        if depth == 0 and not _is_math(tokens, i) and token not in JOINTS:
            clean = last == 0 and tokens[i - 2] not in ("=", "+=", "a")
            end = i if clean else last
            break
    formula, rest = tokens[:end], "".join(tokens[end:])
    if not {"=", "+=", "-="} & set(formula):
        return "", text
    return _lines(formula), rest.lstrip(" ,.:;")


def inline(text: str) -> str:
    """A text whose formulas are LaTeX between `\\(` and `\\)`, and whose other characters stand for themselves."""
    found: list[str] = []
    for piece in re.split(r"(`[^`]*`)", text):
        found.append(piece if piece.startswith("`") else _with_formulas(piece))
    return "".join(found)


def _with_formulas(text: str) -> str:
    tokens, found, i = _tokens(text), [], 0
    while i < len(tokens):
        end, depth, words = i, 0, 0
        while end < len(tokens) and (_is_math(tokens, end) or tokens[end].isspace() or words):
            if words or (tokens[end] == "[" and end > i and tokens[end - 1].isalnum()):  # as in `R[id of x]`
                words += (tokens[end] == "[") - (tokens[end] == "]")
            depth += (tokens[end] in "([") - (tokens[end] in ")]")
            if depth < 0 or (depth == 0 and tokens[end] in ENDS and _followed_by_space(tokens, end)):
                break
            end += 1
        while end > i and (tokens[end - 1].isspace() or tokens[end - 1] in OPEN):
            end -= 1
        run = tokens[i:end]
        starts = run and not run[0].isspace() and (run[0] == "-" or run[0] not in OPEN[1:]) and run[0] != "["
        if (
            starts
            and re.search("[A-Za-z]", "".join(run))
            and all(run.count(a) == run.count(b) for a, b in ("()", "[]", "{}"))
        ):
            found.append(rf"\({latex(run)}\)")
            i = end
        else:
            found.append(re.sub(r"([*_\[\]<])", r"\\\1", tokens[i]))
            i += 1
    return "".join(found)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.replace(" . ", " · ").replace(" .. ", " … "))


def _followed_by_space(tokens: list[str], i: int) -> bool:
    return i + 1 == len(tokens) or tokens[i + 1].isspace()


def _is_math(tokens: list[str], i: int) -> bool:
    token = tokens[i]
    if not token[0].isalpha():
        hyphen = token == "-" and i > 0 and tokens[i - 1][-1].isalpha() and not _followed_by_space(tokens, i)
        return token not in ("`", '"', "–", "?", "'s") and not hyphen
    following = next((t for t in tokens[i + 1 :] if not t.isspace()), "")
    if token in ("a", "A"):  # an article, or a token
        word = following[:1].isalpha() and len(following) > 1
        return i > 0 and not word and not (following == "[" and _followed_by_space(tokens, i))
    stem = re.sub(r"[\d_'].*", "", token)
    if stem in FUNCTIONS:
        return "_" in token or following[:1] in ("(", "[") or stem in ("ln", "log", "sin", "cos")
    return (len(stem) == 1 and token != "T5") or stem in (*GREEK, *NAMES) or "_" in token


def _lines(tokens: list[str]) -> str:
    """A formula; where it joins several by `and`, `with` or a comma, one a line."""
    lines: list[list[str]] = [[]]
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token in "([") - (token in ")]")
        if token in JOINTS:
            lines.append([])
        lines[-1].append(token)
        if token == "," and depth == 0 and "=" in tokens[i:] and tokens[i + 2 : i + 3] != ["with"]:
            lines.append([])
    if len(lines) == 1:
        return latex(tokens)
    return r"\begin{gathered}" + r" \\ ".join(latex(line) for line in lines) + r"\end{gathered}"


def latex(tokens: list[str]) -> str:
    """LaTeX of a formula's tokens."""
    tokens = [
        token for i, token in enumerate(tokens) if not token.isspace() or _product(tokens[i - 1 : i + 2])
    ]
    found, i = "", 0
    while i < len(tokens):
        token, after = tokens[i], tokens[i - 1] if i else ""
        if token.isspace():
            found, i = found + r"\,", i + 1
        elif token == "**":
            power, i = _operand(tokens, i + 1)
            found += f"^{{{latex(power)}}}"
        elif token == "_":
            group, i = _group(tokens, i + 1)
            found += f"_{{{latex(group[1:-1])}}}"
        elif token == "^":
            group, i = _group(tokens, i + 1)
            found += f"^{{{latex(group)}}}"
        elif token == "[" and re.search(r"[^\W_]$|\)$|'$", after) and after != "table":
            group, i = _group(tokens, i)
            indices = all(re.fullmatch(r"[A-Za-z,]|\d+", each) for each in group[1:-1])
            inner = latex(group[1:-1])
            found += f"_{{{inner}}}" if indices else f"[{inner}]"
        elif token in ("sqrt", "conj") and tokens[i + 1 : i + 2] == ["("]:
            group, i = _group(tokens, i + 1)
            found += (r"\sqrt" if token == "sqrt" else r"\overline") + f"{{{latex(group[1:-1])}}}"
        elif token == "*" and len(after) > 1 and after.isalpha():
            found, i = found + r"\cdot ", i + 1
        else:
            found, i = found + _symbol(token), i + 1
    return found


def _product(around: list[str]) -> bool:
    """Whether a space stands between two factors."""
    return len(around) == 3 and bool(re.search(r"[\w)\]']$", around[0])) and around[2][:1].isalpha()


def _group(tokens: list[str], i: int) -> tuple[list[str], int]:
    """What stands in the bracket that opens at i, with it, or the one token there; and where it ends."""
    depth, end = 0, i
    while end < len(tokens):
        depth += (tokens[end] in "([{") - (tokens[end] in ")]}")
        end += 1
        if depth <= 0:
            break
    return tokens[i:end], end


def _operand(tokens: list[str], i: int) -> tuple[list[str], int]:
    """The exponent at i, without the parentheses around it: a group, or a signed number or fraction."""
    if tokens[i] == "(":
        group, end = _group(tokens, i)
        return group[1:-1], end
    end = i + 1 + (tokens[i] == "-")
    end += 2 if tokens[end : end + 1] == ["/"] else 0
    return tokens[i:end], end


def _symbol(token: str) -> str:
    if token in SYMBOLS or (not token[0].isalpha() and not token.startswith("_")):
        return SYMBOLS.get(token, token)
    if token in JOINTS:
        return rf"\text{{{token} }}"
    if token.startswith("_"):
        return f"_{{{_symbol(token[1:])}}}"
    stem, prime = token.rstrip("'"), "'" if token.endswith("'") else ""
    match = re.fullmatch(r"([A-Za-z])(\d+)", stem) or re.fullmatch(r"([A-Za-z]+)_(\w+)", stem)
    if match and (len(match[1]) == 1 or (match[1] in (*FUNCTIONS, *GREEK) and len(match[2]) < 6)):
        return rf"{_symbol(match[1])}_{{{_symbol(match[2])}}}{prime}"
    if stem in GREEK or stem in ("sum", "max", "min", "ln", "log", "sin", "cos", "tanh"):
        return rf"\{stem} "
    if stem in FUNCTIONS:
        return rf"\operatorname{{{stem}}}{prime}"
    if len(stem) == 1:
        return stem + prime
    return rf"\text{{{stem.replace('_', chr(92) + '_')}}}"


__all__ = ["display", "inline", "latex"]
