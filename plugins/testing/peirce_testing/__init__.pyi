from .certificate import certificate_of as certificate_of
from .certificate import standing as standing
from .conformance import Conformance as Conformance
from .conformance import Outcome as Outcome
from .conformance import unchecked as unchecked
