"""The words of `upgrade/clutrr`: what people are called, and what facts say of them."""

from __future__ import annotations

ASKED = "adam eve"
"""The two people of each question, where `task.people` is `roles`."""
NAMES = (
    "john mary james anna tom kate peter alice george sarah paul emma david jane michael helen robert lucy",
    "joe nancy ben susan luke diana mark carol max julia frank grace jack clara sam ellen henry rose",
)
"""The others in training, and in tests."""
KINDS = (
    "daughter father mother son brother sister husband wife grandfather grandmother grandson granddaughter aunt uncle "
    "niece nephew"
)
"""What a fact says of two people. Their relation has its number; the converse that plus the number of all."""
SAME = 2 * len(KINDS.split())
"""The relation of two tokens of one person."""
UNKNOWN = SAME + 1
