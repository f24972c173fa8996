"""What a trained encoder gains by relations: rules in words, with controls."""
