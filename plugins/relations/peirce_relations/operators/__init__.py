"""Operators that derive relations from relations, and attention that is told of them."""
