"""What the inputs about a query graph hold: the numbers that an encoder writes and positions read.

A graph's nodes are numbered; each token has the number of its node, and one entry for every node that says how its own
stands to it. So nothing is larger than tokens times `NODES`, and tokens that follow others bring their own rows.
"""

from __future__ import annotations

NODES = 32
"""How many nodes a query graph may have; 0 is what no token of the graph has."""
OUTSIDE = 0
"""The node of a token that stands for none, such as a parenthesis."""
REACH = 15
"""Distances are told apart up to this one, either way."""
APART = 2 * REACH + 1
"""The code of two nodes that no path joins; a distance d has the code d + `REACH`."""
DISTANCES = APART + 1
"""The codes of distances are below this."""
ROLES = ("same", "head", "tail", "negation", "negated", "answer", "atom", "negative_atom")
"""What one node is to another; a set of roles is the sum of 2**place.

`same`: the same node. `head`: the head of an atom, to its relation. `tail`: a relation, to the tail of its positive
atom. `negation`: a relation, to its negation. `negated`: a negation, to the tail of its atom. `answer`: the union, to
the free variable. `atom` and `negative_atom`: the head of an atom, to its tail.
"""
ROLE_SETS = 2 ** len(ROLES)
"""The codes of sets of roles are below this."""
