"""Experiments: what the tables and figures of a paper need trained, and results that say where they come from."""
