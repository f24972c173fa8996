"""The names of `peirce_export`, of the distribution peirce-export, that `peirce` offers as its own."""

from peirce.extras import require

require("an exported file", "peirce_export", extra="peirce-export[run]")

from peirce_export import Session as Session  # noqa: E402
from peirce_export import export as export  # noqa: E402
from peirce_export import verify as verify  # noqa: E402
