"""Queries themselves, without any graph: their syntaxes, their types, their forms, and their pictures."""
