"""Heads on the whole input, on tokens, and on pairs of tokens."""
