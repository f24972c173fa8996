"""Recurrent operators, one file each."""
