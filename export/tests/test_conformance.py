from peirce_testing import Conformance

test_conformance = Conformance("peirce_export.plugin")
