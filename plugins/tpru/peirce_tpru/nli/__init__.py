"""Natural language inference: does a premise entail a hypothesis."""
