"""The transformer, and recurrent networks."""
