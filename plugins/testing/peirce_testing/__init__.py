"""The conformance suite, for the parts in the box and for everyone else's.

A plug-in's author adds one line to a test module, and pytest shows one test for each check and part:

    test_conformance = Conformance("my_lab.ops")

or runs `pytest --pyargs peirce_testing.suite --peirce-plugin my_lab.ops`. This package loads little until it is
used, since pytest imports its `plugin` module in every run.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
