"""Sampled queries: grounded by walks, held against every check, and kept in Parquet files."""
