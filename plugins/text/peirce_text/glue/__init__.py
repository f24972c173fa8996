"""GLUE: nine tasks on sentences and pairs of sentences, with their files, metrics and submissions."""
