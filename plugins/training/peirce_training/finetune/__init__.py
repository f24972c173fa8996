"""`peirce finetune`: train a saved model on a task at each point of a grid and with several seeds."""
