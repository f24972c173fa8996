"""The `peirce` command. Its help lists every command by name and imports none of them.

The core's own commands are named in `lines`; all others come from the entry-point group `peirce.commands`. Each is
a typer application, or a function that typer can make one of, and is imported when it runs.

Exit codes: 0 ok, 1 a check failed, 2 bad input.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from attrs import frozen

from peirce.commands.lines import CORE, packaged_lines
from peirce.errors import PeirceError, RegistryError
from peirce.registry import VARIABLE

GROUP = "peirce.commands"


@frozen(kw_only=True)
class Command:
    """A command that has not been imported.

    Args:
        name: what the user types.
        help: one line.
        owners: every distribution that announces it; more than one is an error when it runs.
        target: `module:attribute`.
    """

    name: str
    help: str
    owners: tuple[str, ...]
    target: str


def commands() -> tuple[Command, ...]:
    """Every command there is: the core's, then the announced ones by name; none is imported."""
    helps = packaged_lines()
    found = {
        name: Command(name=name, help=helps.get(name, ""), owners=("peirce",), target=target)
        for name, target in CORE.items()
    }
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _owner(entry))):
        owner = _owner(entry)
        before = found.get(entry.name)
        owners = (*before.owners, owner) if before else (owner,)
        text = helps.get(entry.name, "") if owner == "peirce" else _summary(entry)
        found[entry.name] = Command(
            name=entry.name,
            help=f"(announced by {' and '.join(owners)})" if before else text,
            owners=owners,
            target=entry.value,
        )
    return tuple(found.values())


def application() -> typer.Typer:
    """The whole command line, with a stand-in for each command that imports it when it runs."""
    app = typer.Typer(
        name="peirce",
        help="Compose logic-biased neural networks, train them, export them and run them.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_global_options)
    for command in commands():
        app.command(
            command.name,
            help=command.help,
            add_help_option=False,
            context_settings={
                "ignore_unknown_options": True,
                "allow_extra_args": True,
                "allow_interspersed_args": False,
            },
        )(_stand_in(command))
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        typer.main.get_command(application()).main(args=_kept(arguments), prog_name="peirce")
    except PeirceError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read the output, such as `head`, has closed it; flushing at exit would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # A full disk, a folder without permission, a name that is too long: the user's to put right.
        typer.secho(
            f"error: {error}; check the path, its permissions and the space there", err=True, fg="red"
        )
        sys.exit(2)


def _kept(arguments: Sequence[str] | None) -> list[str]:
    """The arguments, with each `--` doubled, since a stand-in's parser takes the first of two away."""
    given = sys.argv[1:] if arguments is None else arguments
    return [kept for argument in given for kept in (["--", "--"] if argument == "--" else [argument])]


def _global_options(
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="FILE", help="The registry.toml to use.")
    ] = None,
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
        code = loaded_command(command).main(
            args=list(context.args), prog_name=f"peirce {command.name}", standalone_mode=False
        )
        if isinstance(code, int) and code:
            raise typer.Exit(code)

    return run


def loaded_command(command: Command) -> Any:
    """What runs a command, with its module imported.

    Raises:
        RegistryError: several distributions announce it, or it needs a module that is not installed.
    """
    if len(command.owners) > 1:
        raise RegistryError(
            f"command {command.name!r} is announced by {' and '.join(command.owners)}; uninstall all but one"
        )
    module, _, attribute = command.target.partition(":")
    try:
        target = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise RegistryError(
            f"command {command.name!r} of {command.owners[0]} needs the module {error.name!r}, which is not "
            f"installed; `pip install 'peirce[all]'` installs what the commands of peirce need"
        ) from error
    if isinstance(target, typer.Typer):
        return typer.main.get_command(target)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(help=None)(target)
    return typer.main.get_command(app)


def _owner(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"


def _summary(entry: EntryPoint) -> str:
    if entry.dist is None:
        return ""
    summary = entry.dist.metadata.get("Summary", "")  # type: ignore[attr-defined]
    # Help shows the first sentence alone, and who gives the command belongs to it.
    return f"{summary.partition('. ')[0].rstrip('.')} ({entry.dist.name})".strip()


if __name__ == "__main__":
    main()
