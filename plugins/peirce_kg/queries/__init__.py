"""Queries themselves, without any graph: their two syntaxes, their types, their forms, and their pictures."""
