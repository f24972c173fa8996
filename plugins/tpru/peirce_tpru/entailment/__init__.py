"""Logical entailment: propositions, exact decisions, the published files, the task, and generated pairs."""
