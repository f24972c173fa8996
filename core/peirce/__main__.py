"""`python -m peirce` is the `peirce` command."""

from peirce.cli import main

main()
