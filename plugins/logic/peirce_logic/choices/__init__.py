"""The task `multiple_choice`: questions about a text, with options."""
