"""`peirce tune`: the settings of a training, searched by optuna."""
