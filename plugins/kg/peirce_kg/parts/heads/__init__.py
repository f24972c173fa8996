"""Heads that rank entities."""
