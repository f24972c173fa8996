"""The `peirce` command, also as `python -m peirce`."""

import signal


def main() -> None:
    """Run the command line and exit. Before it can say anything, and afterwards, Ctrl-C ends it in silence."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else somebody has it ignored
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from peirce.commands.main import main as command_line

    try:
        command_line()
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
