"""First-order queries over knowledge graphs: TEGA, systems that execute queries, and all that they are asked about.

`queries` is the language, `graphs` and `engine` answer it exactly, `sampling` draws queries, `encoding` tells a model
of them, `embedding` trains vectors for it; `parts` are what models are made of; `task` trains, `evaluation` ranks,
`ask` asks, `experiments` are the tables of TEGA. Only `parts`, `task` (with `demo`) and `embedding` import torch.
"""
