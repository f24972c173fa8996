"""Experiments are listed without what runs them."""

from __future__ import annotations

from command_line import python_prints


def test_a_listing_does_not_import_torch() -> None:
    program = (
        "import sys; from peirce.registry import Registry; "
        "print(len(Registry.discover(kinds=('experiments',)).entries('experiments')) > 10, 'torch' in sys.modules)"
    )
    assert python_prints(program) == "True False"
