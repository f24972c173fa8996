"""Pairs of texts: of a source a model learns to write the target."""
