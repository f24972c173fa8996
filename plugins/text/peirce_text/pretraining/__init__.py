"""Language models from plain text: shards to tokens, tokens to pairs and masks, recipes, and `peirce pretrain`."""
