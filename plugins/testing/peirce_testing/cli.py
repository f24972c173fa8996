"""`peirce plugins check`: the conformance suite over the parts of one plug-in."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, print_json
from peirce.files import parse_toml, read_text
from peirce.registry import (
    EntryPoint,
    Registry,
    RegistryFile,
    canonical,
    find_registry_file,
    installed_plugins,
    named_plugin,
    unknown_plugin,
)


def check(
    plugin: Annotated[
        str,
        typer.Argument(
            metavar="PLUGIN",
            help="distribution:entry-point, a distribution that has one plug-in, or a module's name.",
        ),
    ],
    json: Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on checks that could not run.")] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Try more examples, and larger exports.")
    ] = False,
    tensorrt: Annotated[
        bool, typer.Option("--tensorrt", help="Let TensorRT parse and build every part, too.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Try fewer examples, and leave out exports and what else takes seconds."
        ),
    ] = False,
    last_failed: Annotated[
        bool, typer.Option("--last-failed", help="Run the checks that failed the last time; all if none did.")
    ] = False,
    keyword: Annotated[
        str, typer.Option("--keyword", "-k", metavar="EXPRESSION", help="Run these checks and parts only.")
    ] = "",
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK[KIND.NAME]=REASON", help="A check that is known to fail; repeatable."),
    ] = None,
    record: Annotated[
        bool,
        typer.Option("--record", help="Run no check; write anew what the check `record` holds parts to."),
    ] = False,
) -> None:
    """Import a plug-in and run the conformance suite over its parts."""
    options = {
        "--keyword": keyword, "--last-failed": last_failed, "--expect": expect, "--quick": quick,
        "--thorough": thorough, "--tensorrt": tensorrt, "--strict": strict,
    }  # fmt: skip
    if record and (given := [name for name, value in options.items() if value]):
        raise typer.BadParameter(f"--record runs no check; leave out {', '.join(given)}")
    if quick and thorough:
        raise typer.BadParameter("--quick and --thorough exclude each other")
    entry = _plugin(plugin)
    _check_loads(entry, json)

    from peirce_testing.conformance import Conformance
    from peirce_testing.running import run_suite

    suite = Conformance(
        entry.name,
        expected_failures=dict(each.partition("=")[::2] for each in expect or ()),
        thorough=thorough,
        tensorrt=tensorrt,
        quick=quick,
        strict=strict,
    )
    if record:
        files = suite.record()
        if json:
            print_json("peirce.plugins.record/1", plugin=entry.name, files=list(map(str, files)))
        else:
            typer.echo("\n".join(f"wrote {path}" for path in files) or "none of its parts is recorded")
        return
    result = run_suite(entry, suite, keyword=keyword, last_failed=last_failed)
    if json:
        print_json("peirce.plugins.check/1", plugin=entry.name, **result.to_dict())
    else:
        result.show()
    if not result.passed:
        raise typer.Exit(1)


def _plugin(name: str) -> EntryPoint:
    """The plug-in of a name.

    Raises:
        RegistryError: there is no plug-in and no module of that name.
    """
    installed = installed_plugins()
    if name.endswith(".py"):
        more = ". A module is named without .py; it is found with PYTHONPATH=FOLDER before the command"
        raise unknown_plugin(name, installed, more)
    entry, _ = named_plugin(name, installed)
    if entry.distribution is None and not name.startswith("module:") and find_spec(entry.top) is None:
        project, more = Path("pyproject.toml"), ". There is no module of that name either"
        here = parse_toml(read_text(project)).get("project", {}).get("name", "") if project.is_file() else ""
        if canonical(here) == canonical(name.partition(":")[0]):
            more = ". It is the distribution of this folder, and is not installed: `pip install -e .`"
        raise unknown_plugin(name, installed, more)
    return entry


def _check_loads(entry: EntryPoint, json: bool) -> None:
    """Print why a plug-in cannot be loaded, and exit with 1; nothing if it can."""
    everything_off = RegistryFile(path=find_registry_file().path, default="off")
    broken = Registry.discover(everything_off, extra_plugins=[entry.name], strict=False).quarantined
    if not broken:
        return
    if json:
        plugin, cause = broken[0].plugin, broken[0].cause
        print_json("peirce.plugins.check/1", plugin=plugin, passed=False, cause=cause, checks={})
    else:
        typer.secho(f"{broken[0].plugin} cannot be loaded: {broken[0].cause}", fg="red")
        typer.echo(broken[0].detail, nl=False)
    raise typer.Exit(1)
