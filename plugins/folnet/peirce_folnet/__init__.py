"""FOLNet (Chen, 2023): its seven operators, its positions, both architectures, and its published checkpoints."""
