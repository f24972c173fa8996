"""Language models that know the logical structure of a sentence: the augmenter `logical`."""
