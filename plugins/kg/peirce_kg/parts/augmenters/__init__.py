"""Augmenters: entities begin with the vectors of a trained link predictor."""
