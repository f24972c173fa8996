from .conformance import Conformance as Conformance
from .conformance import Outcome as Outcome
