"""`python -m peirce` is the `peirce` command."""

from peirce.commands.main import main

main()
