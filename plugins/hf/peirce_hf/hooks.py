"""The hook of layouts of checkpoints, which any plug-in may implement."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping

from peirce.registry import Kind, hookspec, targets

LAYOUTS = "layouts"
KINDS = (Kind(name=LAYOUTS, read=targets("'bert': 'my_lab.layouts:Bert'", names=r"[a-z][a-z0-9_.-]*")),)


@hookspec
def register_layouts() -> Mapping[str, str]:
    """Add layouts of checkpoints: by `model_type`, the `peirce_hf.layouts.layout.Layout` as `module:attribute`."""
