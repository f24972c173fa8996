from .importing import made as made
from .importing import vacant as vacant
from .show import Json as Json
from .show import as_json as as_json
from .show import as_table as as_table
from .show import group as group
