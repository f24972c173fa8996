"""The picture of a model for a terminal, of characters."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from peirce_show.contents import ADDED, CHANGED, GONE, Contents, Piece

_MARK = {ADDED: "+", GONE: "−", CHANGED: "~", "": " "}
_LEFT = {(False, False): "   ", (True, False): "──▶", (False, True): "◀──", (True, True): "◀─▶"}
_RIGHT = {(False, False): "   ", (True, False): "◀──", (False, True): "──▶", (True, True): "◀─▶"}
"""An arrow at either side, by whether the branch there is read and whether it is written."""


def text_picture(shown: Contents) -> Iterator[str]:
    """The lines of a model's picture: the branches run down, the parts stand between them."""
    both, network = "B" in shown.branches, shown.architecture
    whole = [*shown.tokens, *shown.pairs, *shown.scopes, *shown.inside, *shown.heads]
    whole += [each for layer in shown.layers for each in (*layer.mixing, *layer.state)]
    wide = max(len(each.name) for each in (network, *whole)) + 2

    def row(piece: Piece, label: str = "") -> str:
        left, right = (
            arrows[tuple(any(end[0] == branch for end in ends) for ends in (piece.reads, piece.writes))]  # type: ignore[index]
            for branch, arrows in (("U", _LEFT), ("B", _RIGHT))
        )
        rail = "│" if both else " "
        drawn = f"{_MARK[piece.status]} │{left}{piece.name:^{wide}}{right}{rail}"
        return "  ".join([drawn, *filter(None, [label.strip(), *_facts(piece)])]).rstrip()

    yield f"{shown.name}" + (f", against {shown.other}: + added, − gone, ~ changed" if shown.other else "")
    architecture = [
        f"{_MARK[network.status]} architecture {network.name}".strip(),
        network.plugin,
        *network.settings,
    ]
    yield "  ".join(architecture)
    yield ", ".join(
        f"{name} {_with_old_value(value, shown.before.get(name))}" for name, value in shown.sizes.items()
    )
    yield f"inputs: {', '.join(shown.inputs)}"
    yield "  U" + (" " * (wide + 6) + "B" if both else "")
    for group, label in ((shown.tokens, "U"), (shown.pairs, "B"), (shown.scopes, " scope")):
        for each in group:
            yield row(evolve(each, writes=((label[0], "", ""),)), label[1:])
    if shown.cycles > 1:
        yield f"  {shown.cycles} × these {sum(layer.count for layer in shown.layers)} layers:"
    for layer in shown.layers:
        counted = _with_old_value(f"{layer.count} layers", None if layer.was is None else str(layer.was))
        yield f"  ── {counted}" + (f", and {shown.decoder} of the decoder" if shown.decoder else "")
        for each in (*layer.mixing, *layer.state) or (
            evolve(network, writes=network.reads, given={}, changes=()),
        ):
            yield row(each)
    if shown.layers:
        yield "  ──"
    for each in shown.inside:
        facts = [f"{_MARK[each.status]} inside attention: {each.name}", *each.notes, *_facts(each)]
        yield "  ".join(facts)
    for each in shown.heads:
        yield row(each, "head")
    yield f"outputs: {', '.join(f'{name} {dims}' for name, dims in shown.outputs.items())}"


def _facts(piece: Piece) -> list[str]:
    ends = ", ".join(
        f"{name} {channels}".strip() + f" of {branch}" for branch, channels, name in piece.reads if name
    )
    heads = piece.notes if piece.kind == "head" else ()
    return [*filter(None, [piece.typing, ends, piece.plugin, ", ".join(piece.settings)]), *heads]


def _with_old_value(value: str, before: str | None) -> str:
    return value if before is None else f"{value} (was {before})"
