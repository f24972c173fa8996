"""Tensor product representations (TPRU, Huang et al.): the augmenter `tpr`."""
