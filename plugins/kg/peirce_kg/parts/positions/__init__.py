"""Positions that tell of queries: literals, the query graph, LogiRPE."""
