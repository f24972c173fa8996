"""What the graphs of a model are for, in the words of exported files. It needs no torch."""

from __future__ import annotations

from typing import Literal

Role = Literal["model", "prefill", "step"]
"""What an exported graph is for: all of a model, or one of the two graphs of a model that generates."""
MODEL: Role = "model"
PREFILL: Role = "prefill"
STEP: Role = "step"
NEXT = "next_"
"""Begins the names of a step's outputs that are the cached state for the next step."""
