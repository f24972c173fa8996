"""Algebras of relations: their composition tables, and what follows from given edges."""
