"""What architectures are made of: token inputs, a stage of operators that mix tokens, layers, a recurrent loop."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
