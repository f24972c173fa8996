"""Models that answer first-order queries over knowledge graphs: TEGA, systems that execute queries, CQD, ULTRA.

`encoding` tells a model of queries, `parts` are what models are made of, `task` trains and `evaluation` ranks them,
`embedding` trains vectors of link predictors, `exported` and `ultra` answer for `peirce ask`. `parts`, `task`,
`embedding` and parts of `ultra` import torch. Other packages import from here.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
