"""Networks of two branches: an encoder or decoder, and an encoder-decoder."""
