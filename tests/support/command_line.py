"""The type of the fixture that runs the `peirce` command."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

Run = Callable[..., "subprocess.CompletedProcess[str]"]
"""Arguments as strings, `beside` and environment variables by name."""
