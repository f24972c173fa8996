"""Weights of published models."""
