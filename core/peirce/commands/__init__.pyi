from .show import Json as Json
from .show import application as application
from .show import as_json as as_json
from .show import as_table as as_table
from .show import group as group
from .show import made as made
from .show import moved as moved
from .show import vacant as vacant
