"""What a model is told of a query: its tokens, its graph, its atoms, and the files kept beside the model."""
