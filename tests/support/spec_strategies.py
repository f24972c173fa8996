"""Hypothesis strategies for specs: values of the right form, whether or not such parts are registered."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from peirce.spec import (
    Activation,
    HeadSpec,
    InputSpec,
    LayerSpec,
    OperatorSpec,
    OperatorsSpec,
    PartSpec,
    Regularisation,
    ScopeKind,
    ScopeSpec,
    Spec,
)

T = TypeVar("T")

RESERVED = ("use", "as", "activation")
"""Keys of a part's table that are no options of the part."""


def texts(min_size: int = 0) -> SearchStrategy[str]:
    """Any text that TOML can hold, control characters, quotes and line ends included."""
    # A lone surrogate has no UTF-8, so no file can hold it.
    return st.text(st.characters(codec="utf-8"), min_size=min_size, max_size=12)


def scalars() -> SearchStrategy[Any]:
    """A string, integer (64 bits, as TOML promises), number or boolean."""
    numbers = st.floats(allow_nan=False) | st.sampled_from([1e-12, 1e16, 1.0, -0.0, float("inf")])
    return texts() | st.integers(-(2**63), 2**63 - 1) | numbers | st.booleans()


def option_values() -> SearchStrategy[Any]:
    """A value of an option: a scalar, or lists and tables of them to any depth."""
    return st.recursive(
        scalars(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=6,
    )


def option_tables() -> SearchStrategy[dict[str, Any]]:
    """The options of one part."""
    keys = st.sampled_from(["clip", "terms", "share_heads"]) | texts()
    return st.dictionaries(keys.filter(lambda key: key not in RESERVED), option_values(), max_size=3)


def part_specs() -> SearchStrategy[PartSpec]:
    """A position or an augmenter."""
    return st.builds(PartSpec, use=texts(1), options=option_tables())


def operator_specs() -> SearchStrategy[OperatorsSpec]:
    """The operators of layers: absent, a shorthand, or tables; of all layers, or of one after the other."""
    activations = st.sampled_from(get_args(Activation))
    one = st.builds(OperatorSpec, use=texts(1), activation=activations, options=option_tables())
    layer = st.none() | texts() | st.lists(one, max_size=3).map(tuple)
    state = st.none() | texts(1) | st.lists(texts(1) | one, max_size=2).map(tuple)
    own = {"layer": layer, "state": state, "options": st.dictionaries(texts(1), option_tables(), max_size=2)}
    layers = st.lists(st.builds(LayerSpec, repeat=st.integers(1, 10**6), **own), max_size=2)
    return st.builds(OperatorsSpec, layers=layers, **own)


def head_specs() -> SearchStrategy[tuple[HeadSpec, ...]]:
    """Heads whose output prefixes differ."""
    one = st.builds(HeadSpec, use=texts(1), options=option_tables()) | st.builds(
        HeadSpec,
        use=texts(1),
        as_=st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]*", fullmatch=True),
        options=option_tables(),
    )
    return st.lists(one, max_size=3, unique_by=lambda head: head.as_).map(tuple)


def specs() -> SearchStrategy[Spec]:
    """Any spec."""
    counts = st.integers(1, 2**31)
    return st.builds(
        Spec,
        name=texts(1),
        architecture=texts(1),
        dims=option_tables(),
        options=option_tables(),
        input=st.builds(
            InputSpec,
            vocabulary=st.none() | counts,
            token_types=st.integers(0, 9),
            max_length=counts,
            pad_id=counts,
        ),
        scope=st.builds(
            ScopeSpec,
            kind=st.sampled_from(get_args(ScopeKind)),
            mask_padding=st.booleans(),
            count_padding=st.booleans(),
        ),
        operators=operator_specs(),
        positions=st.lists(part_specs(), max_size=2).map(tuple),
        augmenters=st.lists(part_specs(), max_size=2).map(tuple),
        heads=head_specs(),
        regularisation=st.builds(
            Regularisation,
            dropout=st.floats(0, 1, exclude_max=True),
            init_std=st.floats(0, exclude_min=True, allow_infinity=False),
        ),
    )
