from .blocks import blocked as blocked
from .blocks import blocked_training as blocked_training
from .blocks import in_blocks as in_blocks
from .blocks import portion as portion
from .fusion import FusedLinear as FusedLinear
from .fusion import fold_in as fold_in
from .fusion import folded as folded
from .pair_bias import PairBias as PairBias
