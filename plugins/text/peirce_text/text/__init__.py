"""Text for tasks: tokenizers, and the files that texts are read from.

`tokenizer` needs the package `tokenizers`, `shards` needs `datasets`; each is imported when it is first used.
"""
