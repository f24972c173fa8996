"""A model spec: frozen values, read from TOML and written to it; every mistake has its file and line.

A `Spec` says which parts make a model and with which options. It knows no part: the composer checks the
parts' own options and sizes with `structure`, which reports mistakes at the same places. In Python the class of a part
may stand for its name, and an instance of its own `Options` or `Dims` for a table, which a type checker then checks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, final

import attrs
from attrs import Factory, field, frozen, validators

from peirce.errors import SpecError
from peirce.spec.documents import Document, parse_document
from peirce.spec.files import Ready, extend, read
from peirce.spec.structuring import HIDDEN, REST, structure
from peirce.spec.values import FrozenDict, toml_key

T = TypeVar("T")
FORMAT = 1
"""The newest format of spec files that this version reads, and the one that it writes."""

_OPTIONAL = ("options", "layers", "positions", "augmenters", "heads", "gate", "count_padding")
"""Fields that are left out of the TOML when they are empty or false."""

Activation = Literal["none", "modus_ponens", "shifted_relu"]
ScopeKind = Literal["bidirectional", "causal", "prefix", "relation"]


def _part_name(part: str | type[Any]) -> str:
    return part.name if isinstance(part, type) else part


def _check_not_empty(instance: Any, attribute: attrs.Attribute[str], value: str) -> None:
    if not value:
        raise ValueError(f"'{attribute.name}' must not be empty")


def _check_output_name(instance: Any, attribute: attrs.Attribute[str], value: str) -> None:
    # It becomes part of the names of parameters and of outputs, in exported graphs too. A part's own name is
    # checked where parts are registered.
    if value != instance.use and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", value):
        raise ValueError(f"'{attribute.name}' must be letters, digits, '_' and '-', not {value!r}")


def _check_operators_named(
    instance: Any, attribute: attrs.Attribute[Any], value: str | tuple[Any, ...] | None
) -> None:
    if value == "" or (isinstance(value, tuple) and "" in value):
        raise ValueError(f"'{attribute.name}' must not contain an empty name; write [] for no operators")


def _check_not_reserved(
    instance: Any, attribute: attrs.Attribute[Mapping[str, Any]], value: Mapping[str, Any]
) -> None:
    taken = {toml_key(other) for other in attrs.fields(type(instance)) if other is not attribute}
    if clash := sorted(taken & set(value)):
        raise ValueError(f"'{attribute.name}' contains {clash[0]!r}, which is a key of the table itself")


@frozen(kw_only=True)
class InputSpec:
    """What the tokens are.

    Args:
        vocabulary: token ids; absent until a task's data give it.
        token_types: token types, which tell the texts of an input apart; 0 where tokens have none.
        max_length: the most tokens of an input.
        pad_id: the token that fills up a batch.
    """

    vocabulary: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    token_types: int = field(default=2, validator=validators.ge(0))
    max_length: int = field(default=512, validator=validators.ge(1))
    pad_id: int = field(default=0, validator=validators.ge(0))


@frozen(kw_only=True)
class ScopeSpec:
    """Who may attend to whom, before the scopes that positions add.

    Args:
        kind: `bidirectional`, `causal`, `prefix` (both ways within the first tokens), or `relation`, an input.
        mask_padding: whether padding is outside the scope.
        count_padding: whether positions count padding, so that a text stands elsewhere with padding on its left, as in
            published models that are given no positions.
    """

    kind: ScopeKind = "bidirectional"
    mask_padding: bool = True
    count_padding: bool = False


@frozen(kw_only=True)
class OperatorSpec:
    """One operator of a layer, as a table: its name, its activation, and its own options beside them.

    The activation is one of `Activation` on what an operator infers. A state operator may have an option of that name.
    """

    use: str = field(converter=_part_name, validator=_check_not_empty)
    activation: str = "none"
    options: Mapping[str, Any] = field(
        factory=FrozenDict, converter=FrozenDict, validator=_check_not_reserved, metadata={REST: True}
    )


def _tables(cls: type[T], given: object) -> tuple[T, ...]:
    """Entries as tables of a class: a name, a part's class, or another kind of table is one with that name.

    A plain dict is read as a table of TOML.

    Raises:
        SpecError: it is not a list, or an entry is none of these.
    """
    make: Any = cls  # whose keyword arguments a type checker does not know
    if isinstance(given, str | type) or not isinstance(given, Iterable):
        raise SpecError(f"expected a list of {cls.__name__}, not {given!r}: write it in brackets")
    entries: list[Any] = list(given)
    for i, each in enumerate(entries):
        name = getattr(each, "name", None) if isinstance(each, type) else each
        if isinstance(name, str) and name:
            entries[i] = make(use=name)
        elif isinstance(each, Mapping):
            entries[i] = structure(cls, each, where=lambda key: "a spec in Python", label="key")
        elif isinstance(each, PartSpec | OperatorSpec | HeadSpec) and not isinstance(each, cls):
            entries[i] = make(use=each.use, options=each.options)
        elif not isinstance(each, cls):
            raise SpecError(f"expected a {cls.__name__}, a part's class or its name, not {each!r}")
    return tuple(entries)


def _layer(given: str | type[Any] | Iterable[_Operator] | None) -> str | tuple[OperatorSpec, ...] | None:
    if given is None or isinstance(given, str | type):
        return None if given is None else _part_name(given)
    return _tables(OperatorSpec, given)


def _state(
    given: str | type[Any] | Iterable[_Operator] | None,
) -> str | tuple[str | OperatorSpec, ...] | None:
    if given is None or isinstance(given, str | type):
        return None if given is None else _part_name(given)
    return tuple(each if isinstance(each, str) else _tables(OperatorSpec, [each])[0] for each in given)


@frozen(kw_only=True)
class LayerSpec:
    """The operators of a layer.

    Args:
        layer: those that mix tokens: a shorthand such as `"jmc.atp"`, the name of one such as `"lstm"`, or a list of
            tables, state operators among them; None for the architecture's own.
        state: the state operators that follow: a name, or a list of names and tables; None for those among the tables
            of `layer`, or else the architecture's own.
        options: by operator's name, before those of every layer.
        repeat: how many layers in a row are so.
    """

    layer: str | tuple[OperatorSpec, ...] | None = field(default=None, converter=_layer)
    state: str | tuple[str | OperatorSpec, ...] | None = field(
        default=None, converter=_state, validator=_check_operators_named
    )
    options: Mapping[str, Mapping[str, Any]] = field(factory=FrozenDict, converter=FrozenDict)
    repeat: int = field(default=1, validator=[validators.ge(1), validators.le(1_000_000)])


def _layers(given: Iterable[LayerSpec]) -> tuple[LayerSpec, ...]:
    return tuple(given)


@frozen(kw_only=True)
class OperatorsSpec:
    """The operators of every layer, or of one layer after the other.

    Args:
        layer, state: of every layer, as a `LayerSpec` has them.
        layers: layers that differ, from the first on; they begin again until there are `model.dims.layers`.
        options: by operator's name, for every layer's table to fall back on.
    """

    layer: str | tuple[OperatorSpec, ...] | None = field(default=None, converter=_layer)
    state: str | tuple[str | OperatorSpec, ...] | None = field(
        default=None, converter=_state, validator=_check_operators_named
    )
    layers: tuple[LayerSpec, ...] = field(default=(), converter=_layers)
    options: Mapping[str, Mapping[str, Any]] = field(factory=FrozenDict, converter=FrozenDict)


@frozen(kw_only=True)
class PartSpec:
    """A position: its name or its class, and its own options, a table or its `Options`."""

    use: str = field(converter=_part_name, validator=_check_not_empty)
    options: Mapping[str, Any] = field(
        factory=FrozenDict, converter=FrozenDict, validator=_check_not_reserved, metadata={REST: True}
    )


@frozen(kw_only=True)
class AugmenterSpec:
    """An augmenter: its name, whether a learned number that begins at zero scales what it changes, and its options."""

    use: str = field(converter=_part_name, validator=_check_not_empty)
    gate: bool = False
    options: Mapping[str, Any] = field(
        factory=FrozenDict, converter=FrozenDict, validator=_check_not_reserved, metadata={REST: True}
    )


@frozen(kw_only=True)
class HeadSpec:
    """A head: its name, the prefix of its outputs (`as`, else its name), and its own options."""

    use: str = field(converter=_part_name, validator=_check_not_empty)
    as_: str = field(default=Factory(lambda self: self.use, takes_self=True), validator=_check_output_name)
    options: Mapping[str, Any] = field(
        factory=FrozenDict, converter=FrozenDict, validator=_check_not_reserved, metadata={REST: True}
    )


_Operator = OperatorSpec | PartSpec | str | type[Any] | Mapping[str, Any]
_Part = PartSpec | str | type[Any] | Mapping[str, Any]
_Augmenter = AugmenterSpec | PartSpec | str | type[Any] | Mapping[str, Any]
_Head = HeadSpec | PartSpec | str | type[Any] | Mapping[str, Any]


def _parts(given: Iterable[_Part]) -> tuple[PartSpec, ...]:
    return _tables(PartSpec, given)


def _folder(given: str | os.PathLike[str] | None) -> str | None:
    return None if given is None else os.fspath(given)


def _augmenters(given: Iterable[_Augmenter]) -> tuple[AugmenterSpec, ...]:
    return _tables(AugmenterSpec, given)


def _heads(given: Iterable[_Head]) -> tuple[HeadSpec, ...]:
    return _tables(HeadSpec, given)


@frozen(kw_only=True)
class Regularisation:
    """What keeps weights small.

    Args:
        dropout: the rate of dropout everywhere that the architecture has it.
        init_std: the standard deviation that weights start with.
    """

    dropout: float = field(default=0.1, validator=[validators.ge(0), validators.lt(1)])
    init_std: float = field(default=0.02, validator=validators.gt(0))


@final
@frozen(kw_only=True)
class Spec:
    """What a model is made of.

    Args:
        name: the model's name.
        architecture: the name of a registered architecture, or its class.
        from_: the folder of a saved model that a new model begins with; the spec contains all that this one has. In a
            file it is relative to the file.
        dims: the architecture's own sizes, a table or its `Dims`.
        options: the architecture's own options, a table or its `Options`.
        input: what the tokens are.
        scope: who may attend to whom.
        operators: the operators of a layer.
        positions: where tokens stand, in order.
        augmenters: what changes the embeddings, in order.
        heads: what predicts, in the order of the outputs.
        regularisation: dropout and initialisation.
        document: the document that it was read from, which knows the place of each key; specs are compared without it.
    """

    name: str = field(validator=_check_not_empty)
    architecture: str = field(converter=_part_name, validator=_check_not_empty)
    from_: str | None = field(default=None, converter=_folder)
    dims: Mapping[str, Any] = field(converter=FrozenDict)
    options: Mapping[str, Any] = field(factory=FrozenDict, converter=FrozenDict)
    input: InputSpec = field(factory=InputSpec)
    scope: ScopeSpec = field(factory=ScopeSpec)
    operators: OperatorsSpec = field(factory=OperatorsSpec)
    positions: tuple[PartSpec, ...] = field(default=(), converter=_parts)
    augmenters: tuple[AugmenterSpec, ...] = field(default=(), converter=_augmenters)
    heads: tuple[HeadSpec, ...] = field(default=(), converter=_heads)
    regularisation: Regularisation = field(factory=Regularisation)
    document: Document = field(default=Document({}), eq=False, repr=False, metadata={HIDDEN: True})

    @classmethod
    def from_toml(cls, text: str, source: str = "spec.toml", ready: Ready | None = None) -> Spec:
        """Read a spec from TOML.

        Args:
            text: the document.
            source: the file's name, for errors; a relative `extend` is looked for in the same folder.
            ready: finds the file of a ready spec that the text extends; `peirce.registry.ready_spec` finds what
                plug-ins announce.

        Raises:
            SpecError: the spec is not valid; every mistake is named with its line.
        """
        document = parse_document(text, source)
        return _from_document(extend(document, Path(source).parent, ready or _no_ready_spec))

    def to_toml(self) -> str:
        """The spec as TOML, defaults written out; `Spec.from_toml` gives an equal spec."""
        import tomlkit

        return tomlkit.dumps(self._plain())

    def replace(self, changes: Mapping[str, Any]) -> Spec:
        """A spec with some values changed.

        Args:
            changes: new values by dotted key, `{"model.dims.layers": 2, "model.heads.0.count": 135}`.

        Raises:
            SpecError: a key leads nowhere, or the changed spec is not valid.
        """
        return _from_document(attrs.evolve(self.document, data=self._plain()).with_changes(changes))

    def _plain(self) -> dict[str, Any]:
        return {"format": FORMAT, "model": to_plain(self)}

    def at(self, path: str | Sequence[str]) -> str:
        """The place of a key, or of its nearest ancestor in a file: `file.toml:12` for `model.positions.0.clip`."""
        return self.document.at(path) if self.document.places else f"spec {self.name!r}"


def read_spec(
    path_or_name: str | os.PathLike[str], overrides: Mapping[str, Any] | None, ready: Ready
) -> Spec:
    """What `peirce.registry.load_spec` reads, which knows the ready specs that `ready` finds."""
    return _from_document(read(path_or_name, ready).with_changes(overrides or {}))


def _no_ready_spec(name: str) -> Path:
    raise SpecError(
        f"no ready spec {name!r} is known here: give `Spec.from_toml` ready=peirce.registry.ready_spec, or read a file "
        "with `peirce.load_spec`"
    )


def to_plain(value: Any) -> Any:
    """A spec, or a value in one, as the plain tables and lists of its TOML, without what is None or empty."""
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if not attrs.has(type(value)):
        return value
    table: dict[str, Any] = {}
    for attribute in attrs.fields(type(value)):
        item = getattr(value, attribute.name)
        if attribute.metadata.get(HIDDEN) or item is None or (attribute.name in _OPTIONAL and not item):
            continue
        if attribute.metadata.get(REST):
            table |= to_plain(item)
        elif attribute.name != "as_" or item != value.use:
            table[toml_key(attribute)] = to_plain(item)
    return table


@frozen(kw_only=True)
class _File:
    """The top level of a spec file."""

    format: int = field(default=FORMAT, validator=validators.ge(1))
    model: Spec


def _from_document(document: Document) -> Spec:
    found = document.data.get("format", FORMAT)
    if isinstance(found, int) and found > FORMAT:
        raise SpecError(
            f"{document.at('format')}: format {found} is newer than {FORMAT}, the newest that this version of Peirce "
            "reads; upgrade peirce"
        )
    spec = structure(_File, document.data, where=document.at, label="key of a spec").model
    return attrs.evolve(spec, document=document)
