"""The composed model, how it is saved, how it generates, and the contracts of what works on whole models."""

import lazy_loader

from peirce.errors import with_older_names

_EXPORT = "Field LoadedModel OnDevice Pipeline Progress Runner Runtime Say Source"
_SHOW = "Mark Matrix Observe View Viewer observe"
_OLDER = {
    "decoding": "peirce.model:make_decoding",
    "Experiment": "peirce_training.experiments:Experiment",
    "ExperimentReport": "peirce_training.experiments:ExperimentReport",
    "ExperimentRequest": "peirce_training.experiments:ExperimentRequest",
    **{name: f"peirce_export:{name}" for name in _EXPORT.split()},
    **{name: f"peirce_show:{name}" for name in _SHOW.split()},
}
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
