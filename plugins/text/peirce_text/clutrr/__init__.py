"""CLUTRR: how two people are related, told by a story of k facts; train on few facts, test on more."""
