"""First-order queries over knowledge graphs: languages, graphs, exact answers, samples, files of others; no torch.

`languages` reads queries, `graphs` and `engine` answer them exactly, `sampling` draws them, `exchange` reads and writes
files of other projects, and `answering` is `peirce ask`, which asks models, too. `hooks` says what other distributions
can register. Other packages import from here.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
