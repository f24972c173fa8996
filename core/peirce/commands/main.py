"""The `peirce` command. Its help lists every command by name and imports none of them.

The core's own commands are named in `lines`; all others come from the entry-point group `peirce.commands`. Each is
a typer application, or a function that typer can make one of, and is imported when it runs.

Exit codes: 0 ok, 1 a check or a plug-in failed or the machine lacks space, TensorRT or a GPU, 2 bad input, 130 ended by
Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from typing import Annotated, Any, NoReturn, TextIO

import typer

from peirce.commands.ending import INTERRUPTED, Terminated, ending_in_order
from peirce.commands.lines import CORE, GROUPS, packaged_lines
from peirce.commands.running import Command, Misuse, loaded_command, run_command
from peirce.commands.show import as_json
from peirce.errors import (
    PeirceError,
    PluginError,
    RegistryError,
    UnavailableError,
    WriteError,
    lacks_memory,
    printable,
)
from peirce.extras import safe_path
from peirce.files import NO_DIGESTS, disk_error
from peirce.registry import (
    VARIABLE,
    Announced,
    announcements,
    find_registry_file,
    in_a_line,
    installed_plugins,
    set_aside_unreadable,
)

_log = logging.getLogger("peirce")
GROUP = "peirce.commands"
TRACEBACK = "PEIRCE_TRACEBACK"
"""With this variable, an error is shown with its traceback."""


def commands() -> tuple[Command, ...]:
    """Every command there is: the core's, then the announced ones by name; none is imported."""
    helps = packaged_lines()
    found = {
        name: Command(name=name, help=helps.get(name, ""), target=target) for name, target in CORE.items()
    }
    claims: dict[str, list[Announced]] = {}
    for entry in sorted(announcements(GROUP), key=lambda entry: (entry.name, entry.distribution)):
        claims.setdefault(entry.name, []).append(entry)
    for name, entries in claims.items():
        if (
            name in CORE or name in GROUPS
        ):  # with them a plug-in is switched off, so that none may stand in their way
            _log.warning(
                "%s announces a command %r, which is the core's; it is not used",
                entries[0].distribution,
                name,
            )
            continue
        group, dot, _ = name.partition(".")
        if dot and group not in GROUPS:
            _log.warning(
                "%s announces a command %r; of groups that packages add to there is %s, so it is not used",
                entries[0].distribution,
                name,
                ", ".join(GROUPS),
            )
            continue
        found[name] = Command(name=name, help=_help(entries, helps), entries=tuple(entries))
    return tuple(found.values())


class _Commands(typer.core.TyperGroup):
    """The commands; those of plug-ins that are switched off are not listed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        try:
            file, installed = find_registry_file(), installed_plugins()
            off = {one.words for one in commands() if one.entries and not one.on(file, installed)}
        except RegistryError:  # the registry.toml in force is broken, which whoever needs it says
            off = set()
        within = "" if ctx.parent is None else f"{ctx.info_name} "
        return [name for name in super().list_commands(ctx) if within + name not in off]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments before a command."""
        with _cut():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Find a command and run it."""
        with _cut():
            return super().invoke(ctx)


class _StandIn(typer.core.TyperCommand):
    """A command that is not imported yet: its arguments, a `--` among them, are left to it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep them as they are."""
        ctx.args = args
        return args


@contextmanager
def _cut() -> Iterator[None]:
    """What typer says of arguments is no longer than what Peirce says."""
    try:
        yield
    except Misuse as error:
        said = vars(error)  # help is a message, too, of many lines
        said["message"] = "\n".join(map(printable, said["message"].split("\n")))
        raise


def application() -> typer.Typer:
    """The whole command line, with a stand-in for each command that imports it when it runs."""
    app = _group("peirce", "Compose logic-biased neural networks, train them, export them and run them.")
    app.callback()(_global_options)
    groups = {name: _group(name, help) for name, help in GROUPS.items()}
    for group in groups.values():
        app.add_typer(group)
    for command in commands():
        of, _, word = command.name.rpartition(".")
        (groups[of] if of else app).command(word, cls=_StandIn, help=command.help, add_help_option=False)(
            _stand_in(command)
        )
    return app


def _group(name: str, help: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        cls=_Commands,
        help=help,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that is no UTF-8, or a sign that a terminal's encoding lacks, is shown as an escape.
        sys.stdout.reconfigure(errors="backslashreplace")
    printed = _Printed(sys.stdout)
    set_aside_unreadable()
    try:
        # No process that a command starts imports from the working directory.
        with (
            safe_path(),
            ending_in_order(),
            _warnings_in_lines(),
            redirect_stdout(printed) if "--json" in given else nullcontext(),
        ):
            try:
                typer.main.get_command(application()).main(args=list(given), prog_name="peirce")
            finally:
                sys.stdout.flush()  # a disk that takes no more is told of here, and not when Python has ended
    except KeyboardInterrupt:
        _say_ended("Ctrl-C", INTERRUPTED)
    except SystemExit as end:
        # Of Ctrl-C within a command typer makes an exit.
        if isinstance(end, Terminated) or end.code == INTERRUPTED:
            _say_ended("Ctrl-C" if end.code == INTERRUPTED else "a signal", end.code)
        raise
    except BrokenPipeError:
        # Whoever read the output, such as `head`, has closed it; flushing at exit would complain once more.
        _mute()
        sys.exit(1)
    except Exception as error:
        _tell(error, document="--json" in given and not printed.anything)


def _say_ended(by: str, code: Any) -> NoReturn:
    with suppress(OSError):
        typer.secho(f"ended by {by}; what was whole is kept, and nothing else", err=True)
    sys.exit(code)


class _Printed:
    """A stream that knows whether anything was written to it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.anything = stream, False

    def write(self, text: str) -> int:
        """Write text."""
        self.anything = self.anything or bool(text)
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _tell(error: Exception, *, document: bool) -> NoReturn:
    """Say in one line what went wrong, and exit.

    Args:
        error: what went wrong.
        document: whether to print it as a JSON object too.
    """
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    if not isinstance(error, WriteError):
        what = str(getattr(error, "filename", None) or "what the command writes")
        error = disk_error(error, what, "what was whole before is as it was") or error
    if isinstance(error, PeirceError):
        text, code = str(error), 1 if isinstance(error, WriteError | PluginError | UnavailableError) else 2
    elif isinstance(error, BlockingIOError) or "can't start new thread" in str(error):
        text, code = (
            f"no more processes or threads can be started ({printable(error)}); end some, or raise `ulimit -u`",
            1,
        )
    elif isinstance(error, OSError):
        # A folder without permission, a name that is too long: the user's to put right.
        text, code = f"{printable(error)}; check the path, its permissions and the space there", 2
    elif lacks_memory(error):
        cause = printable(" ".join(str(error).split()), 300) or type(error).__name__
        text, code = f"there is not enough memory ({cause}); lower the batch or the sizes of the model", 2
    else:
        text = (
            f"{in_a_line(error)}. This is a fault of Peirce; {TRACEBACK}=1 shows the traceback, for a report"
        )
        code = 1
    with suppress(OSError):
        typer.secho(f"error: {text}", err=True, fg="red")
    try:
        if document:
            as_json("peirce.error/1", error=text)
        sys.stdout.flush()
    except OSError:
        _mute()
    sys.exit(code)


@contextmanager
def _warnings_in_lines() -> Iterator[None]:
    """Print each warning of Peirce as one line, without the line of code that it came from."""
    usual = warnings.formatwarning

    def line(message: Any, category: Any, *where: Any, **more: Any) -> str:
        ours = category.__module__.partition(".")[0].startswith("peirce")
        return f"warning: {printable(message)}\n" if ours else usual(message, category, *where, **more)

    warnings.formatwarning = line
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _mute() -> None:
    """Write nothing more to standard output, at which Python would fail once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _global_options(
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="FILE", help="The registry.toml to use.")
    ] = None,
    no_digests: Annotated[
        bool,
        typer.Option("--no-digests", help="Open models and exported files without a look at their digests."),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=lambda value: _print_version(value),
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    if no_digests:
        os.environ[NO_DIGESTS] = "1"  # for the processes that a command starts as well
    if registry is not None:
        # Commands of plug-ins, and the processes that they start, then use the same file.
        os.environ[VARIABLE] = os.path.abspath(registry)


def _print_version(wanted: bool) -> None:
    if wanted:
        from peirce.resources import __version__

        typer.echo(f"peirce {__version__}")
        raise typer.Exit


def _stand_in(command: Command) -> Any:
    def run(context: typer.Context) -> None:
        run_command(command, loaded_command(command), context.args)

    return run


def _help(entries: Sequence[Announced], helps: Mapping[str, str]) -> str:
    (first, *others) = entries
    if others:
        return f"(announced by {' and '.join(entry.distribution for entry in entries)})"
    if first.distribution == "peirce":
        return helps.get(first.name, "")
    # Help shows the first sentence alone, and who gives the command belongs to it.
    return f"{first.summary.partition('. ')[0].rstrip('.')} ({first.distribution})".strip()


if __name__ == "__main__":
    main()
