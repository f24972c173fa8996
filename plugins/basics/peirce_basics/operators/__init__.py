"""Recurrent operators, and attention in one operator."""
