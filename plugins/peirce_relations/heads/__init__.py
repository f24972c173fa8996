"""Heads on pairs of nodes."""
