"""The inputs that a query becomes: tokens, query graph, atoms; and the files kept beside the model."""
