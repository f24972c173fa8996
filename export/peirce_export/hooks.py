"""The hooks of runtimes and pipelines, which any plug-in may implement."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping

from peirce.registry import Kind, hookspec, targets

RUNTIMES, PIPELINES = "runtimes", "pipelines"
"""The names of the kinds in a registry."""
KINDS = (
    Kind(name=RUNTIMES, read=targets("'.onnx': 'my_lab.session:Session'", names=r"\.[a-z0-9]+")),
    Kind(name=PIPELINES, read=targets("'ask': 'my_lab.serving:Asks'")),
)
"""What the hooks register."""


@hookspec
def register_runtimes() -> Mapping[str, str]:
    """Add runtimes: by a file's suffix, the class that opens such a file, as `module:attribute`."""


@hookspec
def register_pipelines() -> Mapping[str, str]:
    """Add pipelines, which stand in front of served models: by name, the class as `module:attribute`."""
