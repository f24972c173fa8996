"""The older place of `peirce_training`, of the distribution peirce-training: the same object."""

import sys
from typing import TYPE_CHECKING

from peirce.extras import require

if TYPE_CHECKING:
    from peirce_training import *  # noqa: F403
else:
    require("training", "peirce_training", extra="train")
    import peirce_training

    sys.modules[__name__] = peirce_training
