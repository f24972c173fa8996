"""Recurrent operators of tensor product representations."""
