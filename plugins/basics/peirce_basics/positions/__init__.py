"""Positions that any attention can use: absolute, relative, disentangled."""
