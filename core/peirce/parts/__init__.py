"""What an author of parts imports: a contract for each kind of part, and what parts of all kinds share.

Each contract lives in a file of its name. `state` hands on what authors need of the algebra and the kernels.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
