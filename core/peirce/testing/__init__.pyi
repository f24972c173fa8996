from .conformance import Conformance as Conformance
