from .tables import Row as Row
from .tables import read_dataset as read_dataset
from .tables import read_rows as read_rows
from .tables import read_splits as read_splits
from .text.tokenizer import Tokenizer as Tokenizer
