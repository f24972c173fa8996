"""Checkpoints that other code wrote, as Peirce models, and the way back."""
