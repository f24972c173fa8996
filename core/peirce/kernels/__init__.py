"""Fast kernels: fused projections, work in blocks that stay in the cache, pair terms, rotations."""

import lazy_loader

from peirce.errors import with_older_names

_OLDER = {
    "blocked": "peirce.kernels:uses_blocks",
    "blocked_training": "peirce.kernels:uses_blocks_in_training",
    "fold_in": "peirce.kernels:make_weights_constant",
    "folded": "peirce.kernels:constant_weights",
}
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
