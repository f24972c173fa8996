"""A command, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from command_line import exit_code


class Result(NamedTuple):
    exit_code: int
    stdout: str
    output: str


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def run(*words: str) -> Result:
        code = exit_code(*words)
        said = capsys.readouterr()
        return Result(code, said.out, " ".join((said.out + said.err).split()))

    return run
