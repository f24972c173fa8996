"""The picture of a model: its two branches, and the parts between them, from the input down to the heads.

A picture is a stack of blocks, as wide as a column of a paper. Each draws its own stretch of the branches, so that
blocks can be left out and put in, which is how a page folds and unfolds layers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from attrs import evolve

from peirce.registry import Registry, default_registry
from peirce.spec import Spec
from peirce_show.contents import ADDED, CHANGED, GONE, Contents, Layer, Piece, compare_contents, contents
from peirce_show.pages import page
from peirce_show.svg import SMALL, Markup, element, join_markup, picture, text_of, text_width, truncate

WIDTH = 245.0
"""A column of a paper, 3.4 inches, in points."""
UNARY, BINARY, MIDDLE = 36.0, 209.0, 122.5
"""Where the branches run, and the parts between them."""
HALF, STEP = 32.0, 9.0
"""Half a part's width, and from one arrow to the next."""
_ROLE = {"U": "unary", "B": "binary"}
_MARK = {ADDED: "+ ", GONE: "− ", CHANGED: "~ ", "": ""}


class Block(NamedTuple):
    """A stretch of the picture, drawn from y = 0 on."""

    height: float
    markup: Markup


class Choice(NamedTuple):
    """What can be shown in several ways, the first of which a picture on paper shows."""

    ways: tuple[tuple[Block | Choice, ...], ...]


Node = Block | Choice


def draw(
    source: str | os.PathLike[str] | Spec,
    *,
    other: str | os.PathLike[str] | Spec | None = None,
    html: bool = False,
    registry: Registry | None = None,
) -> str:
    """Draw a model as SVG, or as an HTML page whose layers fold and unfold.

    Args:
        source: a spec, the path of one, a ready name, a saved model's folder, or an exported file.
        other: another model; what differs from it is marked.
        html: whether to give the page.
        registry: where parts are looked up; the default registry if None.

    Raises:
        SpecError, ModelFileError: a source cannot be read or composed.
    """
    registry = registry or default_registry()
    shown = contents(source, registry)
    if other is not None:
        shown = compare_contents(shown, contents(other, registry))
    return render_page(shown) if html else render_svg(shown)


def render_svg(shown: Contents) -> str:
    """The contents as SVG."""
    return _picture(shown, _nodes(shown, folding=False))


def render_page(shown: Contents) -> str:
    """The contents as an HTML page."""
    hint = element(
        "p", "Click a layer's button, or press Enter on it, to unfold or fold it. Point at a part for more."
    )
    drawn = _picture(shown, _nodes(shown, folding=True), role="group")
    return page(f"What {shown.name} is made of", hint, drawn, style=_STYLE, script=_SCRIPT)


def _picture(shown: Contents, nodes: Iterable[Node], role: str = "img") -> Markup:
    height, markup = _stack(nodes)
    against = f", against {shown.other}" if shown.other else ""
    count = sum(layer.count for layer in shown.layers) * shown.cycles
    operators = dict.fromkeys(each.name for layer in shown.layers for each in (*layer.mixing, *layer.state))
    of = ", ".join(operators) or "its own network"
    heads = ", ".join(each.name for each in shown.heads) or "none"
    description = (
        f"Architecture {shown.architecture.name}: {count} layers of {of}; heads: {heads}. "
        "Arrows show which branch of atoms each operator reads and writes."
    )
    title = f"The model {shown.name}{against}"
    stack = element("g", markup, class_="stack")
    return picture(
        stack, width=WIDTH, height=height, title=title, description=description, name="model", role=role
    )


def _stack(nodes: Iterable[Node]) -> Block:
    """Nodes below each other; of a choice the first way is visible, the others are hidden."""
    y, drawn = 0.0, []
    for node in nodes:
        place = {"transform": f"translate(0 {y:g})"}
        if isinstance(node, Block):
            height = node.height
            drawn.append(element("g", node.markup, class_="block", data_height=height, **place))
        else:
            ways = [_stack(way) for way in node.ways]
            height = ways[0].height
            hidden = [None, *["none"] * (len(ways) - 1)]
            inner = (
                element("g", way.markup, class_="way", display=display)
                for way, display in zip(ways, hidden, strict=True)
            )
            drawn.append(element("g", *inner, class_="choice", **place))
        y += height
    return Block(y, join_markup(drawn))


def _nodes(shown: Contents, *, folding: bool) -> Iterator[Node]:
    """The whole picture, from top to bottom."""
    yield _heading(shown)
    yield _inputs(shown)
    if shown.tokens or shown.pairs:
        yield _input_parts(shown)
    for each in shown.scopes:
        block = _part(evolve(each, name=f"{each.name} · scope"), "place")
        yield _draw_over_rails(shown, block.height + 3, block.markup)
    if shown.decoder:
        yield _encoder(shown)
    if shown.cycles > 1:
        count = sum(layer.count for layer in shown.layers)
        label = f"{shown.cycles} × these {count} layers"
        yield _draw_over_rails(shown, 11, text_of(label, MIDDLE, 7, size=7, anchor="middle", bold=True))
    first = 0
    for layer in shown.layers:
        yield _foldable(layer, shown, first) if folding else _layer(layer, shown, _layer_count(layer, shown))
        first += layer.count
    for each in shown.heads:
        block = _part(each, "head")
        yield _draw_over_rails(shown, block.height + 3, block.markup)
    yield _outputs(shown)
    yield _legend(shown)


def _rails(shown: Contents) -> list[tuple[str, float]]:
    return [(branch, x) for branch, x in (("U", UNARY), ("B", BINARY)) if branch in shown.branches]


def _draw_over_rails(shown: Contents, height: float, *content: Markup) -> Block:
    """Something drawn over the branches, which run through."""
    rails = [_line((x, -0.2), (x, height + 0.2), _ROLE[branch], 2.2) for branch, x in _rails(shown)]
    return Block(height, join_markup([*rails, *content]))


def _heading(shown: Contents) -> Block:
    name = text_of(shown.name, 4, 12, size=11, bold=True, room=WIDTH - 8)
    architecture = shown.architecture
    what = f"{_MARK[architecture.status]}architecture {architecture.name} · {architecture.plugin}"
    block = Block(22, text_of(what, 4, 22, size=7, fill=architecture.status or "muted", room=WIDTH - 8))
    lines = [block.markup]
    if architecture.settings:
        colour = architecture.status or "muted"
        block = _flow([(each, colour) for each in architecture.settings], block.height + 8.5)
        lines.append(block.markup)
    sizes = []
    for size, value in shown.sizes.items():
        was = shown.before.get(size)
        text = f"{size.replace('_', ' ')} {value}"
        sizes.append((text, "muted") if was is None else (f"{text} (was {was})", CHANGED))
    block = _flow(sizes, block.height + 8.5)
    return Block(block.height + 3, join_markup([name, *lines, block.markup]))


def _flow(
    words: Sequence[tuple[str, str]], y: float, x: float = 4.0, anchor: str | None = None, room: float = 0
) -> Block:
    """Words with dots between them, in as many lines as they take; each has its colour."""
    lines: list[list[tuple[str, str]]] = [[]]
    room = room or WIDTH - 2 * x
    for text, fill in words:
        word = truncate(text, SMALL, room), fill
        if lines[-1] and text_width(" · ".join(text for text, _ in [*lines[-1], word]), SMALL) > room:
            lines.append([])
        lines[-1].append(word)
    drawn = []
    for line in lines:
        parts = [(" · " if i else "", *word) for i, word in enumerate(line)]
        spans = [element("tspan", between + text, fill=fill) for between, text, fill in parts]
        drawn.append(element("text", *spans, x=x, y=y, font_size=SMALL, text_anchor=anchor))
        y += 8
    return Block(y - 8, join_markup(drawn))


def _inputs(shown: Contents) -> Block:
    text = _flow([(each, "ink") for each in shown.inputs], 10, x=8)
    y = text.height + 4
    box = _box(3, 1, WIDTH - 6, y - 1, "panel", "line")
    tokens = _line((UNARY, y), (UNARY, y + 14), "unary", 2.2)
    widths = [shown.sizes.get(name, "").replace(",", "") for name in ("unary", "binary")]
    labels = [text_of(f"unary atoms [b, x, {widths[0]}]", UNARY + 5, y + 9, fill="unary", room=80)]
    if "B" in shown.branches:
        pairs = f"binary atoms [b, x, y, {widths[1]}]"
        labels.append(text_of(pairs, BINARY - 5, y + 9, fill="binary", anchor="end", room=92))
        labels.append(_line((BINARY, y + 4), (BINARY, y + 14), "binary", 2.2, stroke_linecap="round"))
    return Block(y + 14, join_markup([box, text.markup, tokens, *labels]))


def _outputs(shown: Contents) -> Block:
    text = _flow([(f"{name} {dims}", "ink") for name, dims in shown.outputs.items()], 17, x=8)
    arrows = [_arrow((x, 0), (x, 8), _ROLE[branch], 2.2) for branch, x in _rails(shown)]
    box = _box(3, 8, WIDTH - 6, text.height - 4, "panel", "line")
    return Block(text.height + 5, join_markup([*arrows, box, text.markup]))


def _input_parts(shown: Contents) -> Block:
    """Augmenters and unary positions at one branch, positions of pairs at the other."""
    left = [_input_part(each, UNARY, 1) for each in shown.tokens]
    right = [_input_part(each, BINARY, -1) for each in shown.pairs]
    sides = [_stack(left), _stack(right)]
    return _draw_over_rails(shown, max(side.height for side in sides), *(side.markup for side in sides))


def _input_part(piece: Piece, rail: float, side: int) -> Block:
    near = rail + side * 14
    x = near if side > 0 else near - 2 * HALF
    drawn = [_body(piece, x, 1, 17, "place"), _arrow((near, 10), (rail, 10), "place")]
    y = 18.0
    if piece.settings:
        words = [(each, piece.status or "muted") for each in piece.settings]
        below = _flow(words, y + 7, x=x + HALF, anchor="middle", room=92)
        y = below.height + 1
        drawn.append(below.markup)
    return Block(y + 4, join_markup(drawn))


def _encoder(shown: Contents) -> Block:
    box = _box(MIDDLE - 56, 2, 112, 21, "panel", "line")
    count = shown.sizes.get("layers", "")
    texts = [
        text_of(f"encoder × {count}", MIDDLE, 11, size=7.5, anchor="middle", bold=True),
        text_of("layers as below, on source tokens", MIDDLE, 19, fill="muted", anchor="middle", room=108),
    ]
    arrow = _arrow((MIDDLE, 23), (MIDDLE, 36), "line")
    label = text_of("keys, values", MIDDLE + 4, 32, fill="muted")
    return _draw_over_rails(shown, 37, box, *texts, arrow, label)


def _layer_count(layer: Layer, shown: Contents) -> str:
    """What stands above layers that are drawn once."""
    count = shown.decoder or layer.count
    what = "decoder layers" if shown.decoder else "layers"
    if not layer.count:
        return "no such layers"
    return f"{count} {what}" if count > 1 else "1 layer"


def _foldable(layer: Layer, shown: Contents, first: int) -> Choice:
    """Layers that can be seen once, each in a line, and each whole."""
    whole = _layer(
        layer, shown, _layer_count(layer, shown), _button("fold" if layer.count < 2 else "each", 1)
    )
    if layer.count < 2:
        return Choice(((whole,), (_line_of(layer, shown, _layer_count(layer, shown)),)))
    title = text_of(_layer_count(layer, shown), UNARY + 6, 9, size=7.5, bold=True)
    each: list[Node] = [_draw_over_rails(shown, 12, title, _button("fold", 0, y=0))]
    for number in range(first, first + (shown.decoder or layer.count)):
        name = f"layer {number}"
        single = _layer(layer, shown, name, _button("fold", 0))
        each.append(Choice(((_line_of(layer, shown, name, way=1),), (single,))))
    return Choice(((whole,), tuple(each)))


def _line_of(layer: Layer, shown: Contents, name: str, way: int = 0) -> Block:
    """A layer in a line, with the button that shows it whole."""
    names = " ".join(each.name for each in (*layer.mixing, *layer.state)) or shown.architecture.name
    box = _box(3, 1, WIDTH - 6, 13, "panel", "line")
    label = text_of(f"{name}: {names}", MIDDLE, 10, anchor="middle", room=2 * (MIDDLE - UNARY) - 16)
    block = _draw_over_rails(shown, 16)
    return Block(16, join_markup([box, block.markup, label, _button("unfold", way, y=2)]))


def _button(text: str, way: int, y: float = 2.0) -> Markup:
    """What a click on turns to another way of the choice that it lies in."""
    x = WIDTH - 32
    box = _box(x, y, 27, 10, "paper", "line")
    label = text_of(text, x + 13.5, y + 7.3, anchor="middle")
    return element("g", box, label, class_="button", role="button", tabindex=0, data_way=way, aria_label=text)


def _layer(layer: Layer, shown: Contents, name: str, button: Markup | None = None) -> Block:
    """One layer in its frame: the operators that mix tokens, and those that follow them."""
    y, rows, stages = 14.0, list[Markup](), list[Markup]()
    middles = []
    architecture = shown.architecture
    fixed: tuple[Piece, ...] = ()
    if not layer.mixing and not layer.state:
        fixed = (evolve(architecture, writes=architecture.reads, given={}, changes=()),)
    for stage, pieces in (("mixing", layer.mixing), ("state", layer.state), ("", fixed)):
        start = y
        for piece in pieces:
            inside = [p for p in shown.inside if piece in fixed or (piece.pair and _acts(p, piece))]
            block = _part(piece, "", inside)
            rows.append(element("g", block.markup, transform=f"translate(0 {y:g})"))
            if any(branch == "B" for branch, *_ in (*piece.reads, *piece.writes)):
                middles.append(y + _height(piece) / 2 + 1.5)
            y += block.height
        if pieces and text_width(stage, SMALL) < y - start:
            middle = (start + y) / 2
            stages.append(_vertical_text(stage, 13, middle, "muted"))
        if pieces and stage == "mixing" and layer.state:
            stages.append(_line((8, y), (WIDTH - 8, y), "line", 0.5, stroke_dasharray="2 2"))
            y += 2
    was = f" (was {layer.was})" if layer.was is not None else ""
    title = text_of(name + was, UNARY + 6, 10, size=7.5, bold=True, fill=CHANGED if was else "ink")
    frame = _box(3, 0, WIDTH - 6, y + 2, "panel", "line", rx=5)
    rails = _draw_over_rails(shown, y + 7)
    if "B" not in shown.branches and middles:
        pair = [_line((BINARY, min(middles)), (BINARY, max(middles)), "binary", 1.4, stroke_dasharray="3 2")]
        pair.append(_vertical_text("not kept", BINARY + 9, sum(middles) / len(middles), "binary"))
        stages += pair
    return Block(
        y + 7, join_markup([frame, rails.markup, title, *stages, *rows, *([button] if button else [])])
    )


def _vertical_text(text: str, x: float, y: float, fill: str) -> Markup:
    """A text that runs upwards."""
    return text_of(text, x, y, fill=fill, anchor="middle", transform=f"rotate(-90 {x:g} {y:g})")


def _acts(position: Piece, operator: Piece) -> bool:
    """Whether a position inside attention acts at an operator: values have pair terms, and no rotations."""
    return operator.pair != "value" or position.notes == ("pair",)


def _height(piece: Piece) -> float:
    """How high a part is, by the arrows at its sides."""
    sides = [sum(branch == each for branch, *_ in (*piece.reads, *piece.writes)) for each in "UB"]
    return max(20.0, STEP * max(sides) + 5)


def _part(piece: Piece, role: str, inside: Sequence[Piece] = ()) -> Block:
    """A part between the branches, with its arrows, what is set of it, and the positions that act inside it."""
    height, drawn = _height(piece), list[Markup]()
    wide = HALF
    if role == "head":  # it has few arrows, which may be short
        wide = min(max(HALF, text_width(f"~ {piece.name}", 7.5, bold=True) / 2 + 4), MIDDLE - UNARY - 30)
    for branch, rail, edge in (("U", UNARY, MIDDLE - wide), ("B", BINARY, MIDDLE + wide)):
        ends = [(False, *each) for each in piece.reads] + [(True, *each) for each in piece.writes]
        branch_ends = [each for each in ends if each[1] == branch]
        for i, (written, _, channels, name) in enumerate(branch_ends):
            y = height / 2 + 1.5 + (i - (len(branch_ends) - 1) / 2) * STEP
            start, end = ((edge, y), (rail, y)) if written else ((rail, y), (edge, y))
            drawn.append(_arrow(start, end, _ROLE[branch], 1.1 if written else 0.7))
            label = f"{name} {channels}".strip()
            room = MIDDLE - wide - UNARY - 6
            drawn.append(text_of(label, (rail + edge) / 2, y - 1.6, anchor="middle", fill="muted", room=room))
    drawn.append(_body(piece, MIDDLE - wide, 1, height - 2, role, wide))
    y = height
    for each in inside:
        drawn.append(_line((MIDDLE, y - 1), (MIDDLE, y + 2), "place", 0.8))
        drawn.append(_pill(each, y + 2))
        y += 13
    fill = piece.status or "muted"
    room = 2 * (MIDDLE - UNARY) - 10
    for words in (piece.settings, piece.notes if role == "head" else ()):
        if words:
            below = _flow([(each, fill) for each in words], y + 6, x=MIDDLE, anchor="middle", room=room)
            drawn.append(below.markup)
            y = below.height + 2
    return Block(y + 2, element("g", element("title", str(piece)), *drawn))


def _body(piece: Piece, x: float, y: float, height: float, role: str, half: float = HALF) -> Markup:
    """The box of a part: its name, and whose it is below."""
    branches = {branch for branch, *_ in piece.writes}
    role = role or (_ROLE[branches.pop()] if len(branches) == 1 else "")
    fill, stroke = (f"{role}-soft", role) if role else ("paper", "line")
    dashes = "3 2" if piece.status == GONE else None
    box = _box(x, y, 2 * half, height, fill, piece.status or stroke, 1.6 if piece.status else 0.8, dashes)
    owner, _, name_there = piece.plugin.partition(" ")[0].partition(":")
    plugin = name_there if owner == f"peirce-{name_there}" else f"{owner}:{name_there}"
    middle, room = x + half, 2 * half - 4
    name = f"{_MARK[piece.status]}{piece.name}"
    texts = [
        text_of(name, middle, y + height / 2, size=7.5, anchor="middle", bold=True, room=room),
        text_of(plugin, middle, y + height / 2 + 7, fill="muted", anchor="middle", room=room),
    ]  # fmt: skip
    return element("g", element("title", str(piece)), box, *texts)


def _pill(piece: Piece, y: float) -> Markup:
    """A position inside attention, in a line."""
    text = f"{_MARK[piece.status]}{piece.name} · {', '.join(piece.notes)}"
    text = " · ".join([text, *piece.settings])
    room = 2 * (MIDDLE - UNARY) - 18
    width = min(text_width(text, SMALL), room) + 10
    dashes = "3 2" if piece.status == GONE else None
    box = _box(MIDDLE - width / 2, y, width, 10, "place-soft", piece.status or "place", 0.8, dashes, rx=5)
    label = text_of(text, MIDDLE, y + 7.2, anchor="middle", room=room)
    return element("g", element("title", str(piece)), box, label)


def _legend(shown: Contents) -> Block:
    lines = ["b batch; x, y tokens. Arrows from a branch: read; to a branch: added."]
    if shown.other:
        lines.append(f"Against {shown.other}: + added, − gone, ~ changed.")
    texts = [text_of(line, 4, 9 + 8 * i, fill="muted", room=WIDTH - 8) for i, line in enumerate(lines)]
    return Block(6 + 8 * len(lines), join_markup(texts))


def _box(
    x: float, y: float, width: float, height: float, fill: str, stroke: str,
    line: float = 0.8, dashes: str | None = None, rx: float = 3,
) -> Markup:  # fmt: skip
    return element(
        "rect", x=x, y=y, width=width, height=height, rx=rx, fill=fill, stroke=stroke, stroke_width=line,
        stroke_dasharray=dashes,
    )  # fmt: skip


def _line(
    start: tuple[float, float], end: tuple[float, float], role: str, width: float, **more: object
) -> Markup:
    (x1, y1), (x2, y2) = start, end
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=role, stroke_width=width, **more)


def _arrow(start: tuple[float, float], end: tuple[float, float], role: str, width: float = 1.0) -> Markup:
    """A straight arrow along an axis."""
    (x1, y1), (x2, y2) = start, end
    dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    back = x2 - 4.0 * dx, y2 - 4.0 * dy
    corners = [end, (back[0] - 2.0 * dy, back[1] - 2.0 * dx), (back[0] + 2.0 * dy, back[1] + 2.0 * dx)]
    tip = element("polygon", points=" ".join(f"{x:g},{y:g}" for x, y in corners), fill=role)
    return join_markup([_line(start, back, role, width), tip])


_STYLE = """
svg { width: min(100%, 46rem); }
.button { cursor: pointer; }
.button:focus { outline: none; }
.button:focus-visible rect, .button:hover rect { stroke: var(--ink); stroke-width: 1.6; }
"""
_SCRIPT = """
const svg = document.querySelector("svg"), stack = svg.querySelector(".stack");
const seen = way => way.getAttribute("display") !== "none";
function place(group) {
  let y = 0;
  for (const each of group.children) {
    each.setAttribute("transform", `translate(0 ${y})`);
    const own = each.matches(".block");
    y += own ? Number(each.dataset.height) : place([...each.children].find(seen));
  }
  return y;
}
function turn(button) {
  const ways = [...button.closest(".choice").children];
  ways.forEach(way => way.setAttribute("display", "none"));
  ways[button.dataset.way].removeAttribute("display");
  const height = place(stack), [x, y, width] = svg.getAttribute("viewBox").split(" ");
  svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  svg.setAttribute("height", 2 * height);
  ways.find(seen).querySelector(".button").focus();
}
svg.addEventListener("click", event => { const it = event.target.closest(".button"); if (it) turn(it); });
svg.addEventListener("keydown", event => {
  const it = event.target.closest(".button");
  if (it && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); turn(it); }
});
"""
