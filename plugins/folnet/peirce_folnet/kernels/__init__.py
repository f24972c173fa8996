"""Kernels in Triton's language of FOLNet's operators; they need triton, and are imported where they are used."""
