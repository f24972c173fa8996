"""Language: tokenizers and readers, pretraining, and tasks on text.

Other packages may use the tokenizer, the readers and what tasks on texts share, which are handed out here.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
