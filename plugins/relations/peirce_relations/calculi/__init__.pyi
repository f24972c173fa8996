from .algebra import RelationAlgebra as RelationAlgebra
from .algebra import algebra_of_model as algebra_of_model
from .algebra import broken_laws as broken_laws
from .algebra import calculus as calculus
