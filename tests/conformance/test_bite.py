"""The suite rejects each deliberately wrong part by the check that is about its flaw, and passes its correct twin."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peirce
import pytest
from peirce.registry import Registry
from peirce.testing import Conformance
from peirce.testing.check import BrokenError, NotApplicableError, NotRunError
from wrong import Pair, choosing, future, gathering, others, recurring, sharing

PAIRS = [*future.PAIRS, *sharing.PAIRS, *gathering.PAIRS, *choosing.PAIRS, *others.PAIRS, *recurring.PAIRS]
TWINS = list({pair.right: pair for pair in PAIRS}.values())


def plugin(kind: str, part: type[Any]) -> object:
    return SimpleNamespace(**{f"register_{kind}": peirce.hookimpl(lambda: [part])})


def rejections(kind: str, part: type[Any], *, only: str | None = None, whole: bool = False) -> dict[str, str]:
    """The checks that reject a part, with what they say; `whole` looks for architectures and exporters as well."""
    given = plugin(kind, part)
    conformance = Conformance((given,)) if whole else Conformance(registry=Registry.of(given))
    found, ran = {}, 0
    for check, case in conformance.cases():
        if only in (None, check.name):
            try:
                check.run(case)
            except BrokenError as error:
                found[check.name] = str(error)
            except (NotApplicableError, NotRunError):
                continue
            ran += 1
    assert ran
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.wrong.name)
def test_a_wrong_part_is_rejected_by_the_check_that_is_about_its_flaw(pair: Pair) -> None:
    found = rejections(pair.kind, pair.wrong)
    assert list(found) == [pair.check], found
    message = found[pair.check]
    assert pair.wrong.name in message
    assert f"docs/guide/write-a-plugin/checks.md#check-{pair.check.replace('_', '-')}" in message


@pytest.mark.parametrize("wrong", recurring.SEEN_TWICE, ids=lambda wrong: wrong.name)
def test_a_flaw_that_two_checks_are_about_is_rejected_by_both(wrong: type[Any]) -> None:
    assert set(rejections("operators", wrong)) == recurring.SEEN_TWICE[wrong]


@pytest.mark.parametrize("pair", TWINS, ids=lambda pair: pair.right.name)
def test_its_correct_twin_passes_every_check(pair: Pair) -> None:
    assert rejections(pair.kind, pair.right) == {}


def test_a_length_that_is_fixed_in_the_graph_is_rejected_by_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pair = gathering.FIXES_LENGTH
    assert rejections(pair.kind, pair.wrong) == {}  # nothing but an export can see it
    found = rejections(pair.kind, pair.wrong, only=pair.check, whole=True)
    assert list(found) == [pair.check]
    kept = re.search(r"The file that failed is kept: (.+)", found[pair.check])
    assert kept is not None
    assert Path(kept[1]).is_file()
    before = set(tmp_path.iterdir())
    assert rejections(pair.kind, pair.right, only=pair.check, whole=True) == {}
    assert set(tmp_path.iterdir()) == before, "what passes leaves nothing"
