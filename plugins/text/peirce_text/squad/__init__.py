"""SQuAD: questions whose answers are spans of a text, or which the text does not answer."""
