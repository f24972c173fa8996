"""Data of one's own: which columns are what, texts in classes, words with tags, and predictions for a whole file."""
