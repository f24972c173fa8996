"""The older place of `peirce_training`, of the distribution peirce-training."""

from peirce.extras import require

require("training", "peirce_training", extra="train")

from peirce_training import TrainingOptions as TrainingOptions  # noqa: E402
from peirce_training import train as train  # noqa: E402
