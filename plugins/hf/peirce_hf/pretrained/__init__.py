"""Models of the package `transformers` as architectures, their word embeddings open to augmenters."""
