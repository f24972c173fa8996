"""Makes the folder of wrong parts importable, which a subprocess may then import by name as well."""

import sys
from pathlib import Path

from translations import kept_translations as kept_translations

sys.path.insert(0, str(Path(__file__).parent))
