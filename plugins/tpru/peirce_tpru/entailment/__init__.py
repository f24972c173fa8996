"""Logical entailment: propositions, exact decisions, the published files, the task, and pairs made anew."""
