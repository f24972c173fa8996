"""Tables of the user's: roles of columns, texts in classes, words with tags, and predictions for a whole file."""
