"""The `peirce` command, also as `python -m peirce`."""

import sys


def main() -> None:
    """Run the command line and exit."""
    try:
        from peirce.commands.main import main as command_line

        command_line()
    except KeyboardInterrupt:  # before the command line can say anything
        sys.exit(130)


if __name__ == "__main__":
    main()
