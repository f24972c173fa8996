"""Entity and relation vectors trained by link prediction, for the augmenter `kge`."""
