"""Sentence vectors on the tasks of SentEval: files, protocol, what gives vectors, and `peirce senteval`."""
