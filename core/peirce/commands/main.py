"""The `peirce` command. Its help lists every command by name and imports none of them.

The core's own commands are named in `lines`; all others come from the entry-point group `peirce.commands`. Each is
a typer application, or a function that typer can make one of, and is imported when it runs.

Exit codes: 0 ok, 1 a check or a plug-in failed or the machine lacks space, TensorRT or a GPU, 2 bad input, 130 ended by
Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer

from peirce.commands.lines import GROUP, Command, commands, distribution_of, groups, published
from peirce.commands.show import application, group, print_json
from peirce.errors import (
    PeirceError,
    PluginError,
    RegistryError,
    UnavailableError,
    WriteError,
    lacks_memory,
    one_line,
    printable,
)
from peirce.extras import safe_path, shadowing_folder
from peirce.files import NO_DIGESTS, disk_error
from peirce.registry import (
    VARIABLE,
    ForeignModuleError,
    all_plugins,
    announcements,
    disabled_error,
    disabled_plugins,
    find_registry_file,
    import_announced,
    installed_plugins,
)

TRACEBACK = "PEIRCE_TRACEBACK"
COMPLETE = "_PEIRCE_COMPLETE"
INTERRUPTED = 128 + signal.SIGINT
_UsageError = cast("type[Exception]", typer.BadParameter.__base__)
"""The usage error of click, or of typer's own copy of click, which typer does not export."""
_WITH_PARTS = {"peirce-training": "'peirce[train,text]'"}
"""What to install in place of a distribution that does nothing without parts, tasks and specs of others."""
_MORE = f"{TRACEBACK}=1 shows the traceback"


class _Commands(typer.core.TyperGroup):
    """The commands. Those of plug-ins that are switched off are not listed, and each is imported when it runs."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        off: set[str] = set()
        with suppress(RegistryError):  # a broken registry.toml is reported by the commands that need it
            file, installed = find_registry_file(), installed_plugins()
            off = {one.words for one in commands() if not one.enabled(file, installed)}
        within = "" if ctx.parent is None else f"{ctx.info_name} "
        return [name for name in super().list_commands(ctx) if within + name not in off]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command and import it; the error for one that is not installed names the distribution that has it."""
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except _UsageError as error:
            words = args[0] if ctx.parent is None else f"{ctx.info_name} {args[0]}"
            if (distribution := distribution_of(words)) is None:
                raise
            raise RegistryError(
                f"`peirce {words}` is a command of {distribution}, which is not installed; run "
                f"`pip install {_WITH_PARTS.get(distribution, distribution)}`"
            ) from error
        known = getattr(getattr(command, "callback", None), "stands_for", None)
        return name, command if known is None else load_command(known), rest


def load_command(command: Command) -> Any:
    """What runs a command, with its module imported; an error says who announces it and what is missing."""
    entry, *rivals = command.entries
    if rivals or entry.top != "peirce":  # the core's own commands are never off
        file, installed = find_registry_file(), installed_plugins()
        on = command.enabled(file, installed)
        if not on:
            raise disabled_error(f"command {command.words!r}", disabled_plugins(entry, file, installed))
        if len(on) > 1:
            raise RegistryError(
                f"command {command.words!r} is announced by {' and '.join(str(one.distribution) for one in on)}; "
                "uninstall all but one, or switch their plug-ins off with `peirce plugins disable PLUGIN`"
            )
        entry = on[0]
    owner, target = str(entry.distribution), entry.target
    try:
        app = import_announced(entry)
        if not isinstance(app, typer.Typer):
            function, app = app, application()
            app.command(help=None)(function)
        return typer.main.get_command(app)
    except ForeignModuleError as error:
        raise PluginError(f"command {command.words!r} of {owner} cannot be loaded: {error}") from error
    except PeirceError:
        raise
    except ModuleNotFoundError as error:
        extra = owner.removeprefix("peirce-")
        remedy = (
            f"`pip install 'peirce[{extra}]'` installs what it needs"
            if owner in published()
            else "install it"
        )
        raise RegistryError(
            f"command {command.words!r} of {owner} needs the module {error.name!r}, which is not installed; {remedy}"
        ) from error
    except Exception as error:
        raise PluginError(
            f"command {command.words!r} ({target}) of {owner} cannot be loaded: {one_line(error)}. {_MORE}"
        ) from error


def command_line() -> typer.Typer:
    """The whole command line, with a stand-in for each command that is imported when it runs."""
    app = group("Compose logic-biased neural networks, train them, export them and run them.", cls=_Commands)
    app.callback()(_global_options)
    applications, listed = {"": app}, commands()
    for name, line in groups(listed).items():
        applications[name] = group(line, cls=_Commands)
        app.add_typer(applications[name], name=name)
    for command in listed:
        group_name, _, word = command.name.rpartition(".")

        def stand_in() -> None:
            raise AssertionError("the command itself runs")

        stand_in.__dict__["stands_for"] = command
        applications[group_name].command(word, help=command.help)(stand_in)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before Python began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # what a terminal's encoding lacks is shown as an escape
        sys.stdout.reconfigure(errors="backslashreplace")
    # Pictures go to files; a notebook's own backend need not be installed here.
    os.environ["MPLBACKEND"] = "agg"
    if (
        COMPLETE in os.environ
    ):  # a shell asks what may follow: `eval "$(_PEIRCE_COMPLETE=source_bash peirce)"`
        from typer._completion_classes import completion_init

        completion_init()
    try:
        # No process that a command starts imports from the working directory.
        with safe_path(), _signals() as received, _warnings_in_lines(), _own_stdout("--json" in given):
            try:
                typer.main.get_command(command_line()).main(args=given, prog_name="peirce")
            finally:
                sys.stdout.flush()  # a full disk is reported here, and not after Python has ended
    except (KeyboardInterrupt, SystemExit) as end:
        code = INTERRUPTED if isinstance(end, KeyboardInterrupt) else end.code
        if code != INTERRUPTED:  # of Ctrl-C within a command typer makes an exit
            raise
        by = "a signal" if received else "Ctrl-C"
        with suppress(OSError):
            typer.secho(f"ended by {by}; what was complete is kept, and nothing else", err=True)
        sys.exit(128 + received[0] if received else code)
    except BrokenPipeError:
        # Whoever read the output, such as `head`, has closed it; flushing at exit would complain once more.
        _silence_stdout()
        sys.exit(1)
    except BaseException as error:  # a command of others may raise anything
        _report_and_exit(error, document="--json" in given)


@contextmanager
def _own_stdout(wanted: bool) -> Iterator[None]:
    """Within it, if it is wanted, what libraries and processes write to file descriptor 1 goes to standard error.

    Only `sys.stdout` writes to standard output then, so that a JSON document stands there alone.
    """
    before, descriptor = sys.stdout, None
    with suppress(OSError):  # it is no file where tests replace it
        descriptor = before.fileno()
    if not wanted or descriptor != 1 or not isinstance(before, io.TextIOWrapper):
        yield
        return
    own = os.dup(1)
    with open(own, "w", encoding=before.encoding, errors=before.errors) as sys.stdout:
        os.dup2(2, 1)
        try:
            yield
            sys.stdout.flush()
        finally:
            os.dup2(own, 1)
            sys.stdout = before


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Within it SIGTERM and SIGHUP end a command as Ctrl-C does; yields a list that the received signal is added to.

    A second signal ends the process at once. A signal that is ignored or has a handler already is left alone.
    """
    received: list[int] = []

    def end(number: int, frame: Any) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        received.append(number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if is_main and hasattr(signal, name)]
    ours = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield received
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _report_and_exit(error: BaseException, *, document: bool) -> NoReturn:
    """Say in one line what went wrong, and exit; as a JSON object too if a `document` is asked for."""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    text, code = _message_and_code(error)
    with suppress(OSError):
        typer.secho(f"error: {text}", err=True, fg="red")
    try:
        if document:
            print_json("peirce.error/1", error=text)
        sys.stdout.flush()
    except OSError:
        _silence_stdout()
    sys.exit(code)


def _message_and_code(error: BaseException) -> tuple[str, int]:
    """The message for an error, and the exit code."""
    if not isinstance(error, WriteError):
        what = str(getattr(error, "filename", None) or "what the command writes")
        error = disk_error(error, what, "what was complete before is unchanged") or error
    if isinstance(error, PeirceError):
        return str(error), 1 if isinstance(error, WriteError | PluginError | UnavailableError) else 2
    if isinstance(error, BlockingIOError) or "can't start new thread" in str(error):
        message = f"no more processes or threads can be started ({printable(error)})"
        return f"{message}; end some, or raise `ulimit -u`", 1
    if lacks_memory(error):
        cause = printable(" ".join(str(error).split()), 300) or type(error).__name__
        return f"there is not enough memory ({cause}); lower the batch or the sizes of the model", 2
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return "this needs torch, which is not installed; run `pip install 'peirce-core[torch]'`", 2
    if failed := _failed_plugin(error):
        return f"{failed}. {_MORE}", 1
    package = (getattr(error, "name", None) or "peirce").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and package != "peirce" and shadowing_folder(error) is None:
        return (
            f"this needs the package {package!r}, which is not installed; run `pip install {package}`. {_MORE}",
            1,
        )
    if isinstance(error, OSError):  # no permission, a name that is too long: the user's to put right
        told = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error
        return f"{printable(told)}; check the path, its permissions and the space there", 2
    cause = shadowing_folder(error) or "This is a bug in Peirce"
    return f"{one_line(error)}. {cause}; {_MORE}, for a report", 1


def _failed_plugin(error: BaseException) -> str | None:
    """The plug-in or the command of another distribution whose code an exception came through, and where."""
    with suppress(RegistryError):
        points, plugins, ours = announcements(GROUP), all_plugins(find_registry_file()), published()
        owners = {
            each.top: f"a command of {each.distribution}" for each in points if each.distribution not in ours
        }
        owners |= {each.top: f"plug-in {each.name}" for each in plugins if each.distribution not in ours}
        for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
            top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if top in owners:
                code = frame.f_code
                where = f"in {code.co_qualname}, {Path(code.co_filename).name} line {line}"
                return f"{owners[top]} failed: {one_line(error)} ({where})"
    return None


@contextmanager
def _warnings_in_lines() -> Iterator[None]:
    """Print each warning of Peirce as one line, without the line of code that it came from."""
    default_format = warnings.formatwarning

    def line(message: Any, category: Any, *where: Any, **more: Any) -> str:
        ours = category.__module__.partition(".")[0].startswith("peirce")
        return (
            f"warning: {printable(message)}\n" if ours else default_format(message, category, *where, **more)
        )

    warnings.formatwarning = line
    try:
        yield
    finally:
        warnings.formatwarning = default_format


def _silence_stdout() -> None:
    """Write nothing more to standard output, at which Python would fail once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(wanted: bool) -> None:
    if wanted:
        from peirce.resources import __version__

        typer.echo(f"peirce {__version__}")
        raise typer.Exit


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
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    # Commands of plug-ins, and the processes that they start, then do the same.
    if no_digests:
        os.environ[NO_DIGESTS] = "1"
    if registry is not None:
        os.environ[VARIABLE] = os.path.abspath(registry)


if __name__ == "__main__":
    main()
