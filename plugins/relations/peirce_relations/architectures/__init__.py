"""Networks over graphs of labelled edges."""
