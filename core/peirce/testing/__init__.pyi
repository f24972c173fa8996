from .certificate import certificate as certificate
from .certificate import standing as standing
from .conformance import Conformance as Conformance
from .conformance import Outcome as Outcome
from .conformance import unchecked as unchecked
