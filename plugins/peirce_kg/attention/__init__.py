"""What a trained model's tokens look at when it reads a query."""
