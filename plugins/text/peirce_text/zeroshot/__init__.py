"""Classes by the words that a masked language model prefers: templates, label words, and the task `zeroshot`."""
