"""What parts use of the algebra and the kernels, handed on to their authors."""

from peirce.algebra import Attended as Attended
from peirce.algebra import Norm as Norm
from peirce.algebra import Predicates as Predicates
from peirce.algebra import Scope as Scope
from peirce.algebra import at_least_float32 as at_least_float32
from peirce.algebra import standardise as standardise
from peirce.kernels import PairBias as PairBias
from peirce.kernels import in_blocks as in_blocks
