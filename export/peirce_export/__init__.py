"""Exporters, the verification of what they wrote, and the runtime for exported files."""
