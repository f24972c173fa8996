"""Relations from data as initial atoms."""
