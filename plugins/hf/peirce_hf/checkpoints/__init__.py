"""Checkpoints that `transformers` saved, as Peirce models whose parts a spec names; without `transformers`."""
