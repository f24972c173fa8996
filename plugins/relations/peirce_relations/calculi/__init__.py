"""Calculi of relations: their algebras, what follows from edges, and problems with exact answers.

A plug-in registers a calculus of its own by `register_calculi`: a function that returns a `RelationAlgebra`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
