"""Rows of CSV, TSV and JSON-lines files, plain or gzipped, and of data sets; every error names the file and the row."""

from peirce_text.tables.hub import SPLIT_NAMES, loading, open_dataset, read_dataset, read_splits
from peirce_text.tables.reading import Row, read_rows

__all__ = ["SPLIT_NAMES", "Row", "loading", "open_dataset", "read_dataset", "read_rows", "read_splits"]
