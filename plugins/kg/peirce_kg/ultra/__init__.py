"""ULTRA and UltraQuery: links and queries on any graph, by what its relations share and not by their names."""
