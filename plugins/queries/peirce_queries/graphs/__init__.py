"""Knowledge graphs: read from files, indexed, and described."""
