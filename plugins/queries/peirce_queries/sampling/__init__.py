"""Sampled queries: grounded by walks, checked, and kept in Parquet files."""
