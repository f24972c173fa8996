"""All that ships in the box: operators, positions, augmenters, heads, architectures and tasks."""
