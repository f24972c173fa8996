"""Answers of a query, by a model or by the exact engine, with those marked that a graph entails."""
