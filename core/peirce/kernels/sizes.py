"""How much is worked on at once, chosen for CPUs of 1 to 2 MiB of second-level cache a core and 32 MiB of third.

The sizes are the same on every machine, since sums in other blocks are rounded in another order: a training gives the
same numbers wherever it runs. Elsewhere results stay right and only speed changes: where caches are smaller, blocks
spill into the next level; where they are larger, a part of them stays unused. `docs/results/speed.md` has what other
sizes cost on an AMD EPYC of family 26.
"""

from __future__ import annotations

BLOCK_BYTES = 2 << 20
"""What the widest intermediate result of one block may take: it stays in the second-level cache, or near it."""
PORTION_BYTES = 8 << 20
"""What the binary atoms of the examples that go through the layers together may take.

A stage holds a few tensors of this size, which fit the third-level cache together. glibc's allocator reuses the memory
of tensors below 32 MiB, its largest threshold; larger ones come from the system each time, page by page.
"""
PAIR_BLOCK = {"cpu": 1 << 19}
"""Numbers of the buckets or vectors of pair biases that are held at once, by device: `BLOCK_BYTES` of float32."""
LARGE_PAIR_BLOCK = 1 << 25
"""The same on every other device, where a few large products are faster than many small ones."""
FEWEST_PAIR_BLOCKS = 8
"""The fewest blocks of a gather, where there are rows enough."""
