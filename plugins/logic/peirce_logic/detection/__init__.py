"""Logical relations in text: the lexicon, constituency trees, and the algorithm that maps keywords to spans."""
