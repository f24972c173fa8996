"""The exact engine: a query prepared for grounding, and every answer of many groundings at once."""
