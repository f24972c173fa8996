"""The conformance suite, for the parts in the box and for everyone else's.

A plug-in's author adds one line to a test module:

    test_conformance = Conformance("my_lab.ops")

With `pytest -p peirce_testing.plugin` it is one test for each check and part; without, one test for all of them.
`peirce_testing.strategies` are the hypothesis strategies that checks draw from. `check` makes further checks.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
