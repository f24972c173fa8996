from .attention import Attended as Attended
from .attention import attention_of as attention_of
from .predicates import Norm as Norm
from .predicates import Predicates as Predicates
from .predicates import at_least_float32 as at_least_float32
from .predicates import standardise as standardise
from .scope import Scope as Scope
from .scope import stretch as stretch
