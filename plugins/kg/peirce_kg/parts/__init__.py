"""The parts of query systems: positions, augmenters, heads, and systems that execute a query."""
