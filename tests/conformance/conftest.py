"""Makes the folder of wrong parts importable, which a subprocess may then import by name as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
