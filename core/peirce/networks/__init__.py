"""What architectures are made of: token inputs, a stage of operators that mix tokens, layers, a recurrent loop."""

import lazy_loader

from peirce.errors import with_older_names

_OLDER = {
    "added": "peirce.networks:add_increment",
    "both_branches": "peirce.networks:two_branch_sizes",
    "cache_from_layer": "peirce.networks:flatten_layer_cache",
    "cache_of_layer": "peirce.networks:select_layer_cache",
    "layer_cached_states": "peirce.networks:cached_state_specs",
}
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
