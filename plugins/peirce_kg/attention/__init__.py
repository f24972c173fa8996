"""What a trained model's tokens attend to when it reads a query."""
