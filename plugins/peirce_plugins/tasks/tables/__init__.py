"""Rows of CSV, TSV and JSON-lines files, plain or gzipped; every error names the file and the row."""

from peirce_plugins.tasks.tables.reading import Row, read_rows

__all__ = ["Row", "read_rows"]
