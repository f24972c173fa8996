"""Viewers of plug-ins that are written here."""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType
from typing import Any

from peirce import hookimpl
from peirce.registry import Registry
from peirce_show import View, Viewer, viewers_for


class Letters(Viewer):
    @classmethod
    def shows(cls, model: Any, assets: Collection[str]) -> bool:
        return "letters" in assets

    def view(self, texts: Any, observe: Any) -> View:
        return View(name="letters", text=texts[0])


class Capitals(Letters):
    pass


def test_a_viewer_that_extends_another_shows_the_models_of_both() -> None:
    mine = {"letters": f"{__name__}:Letters", "capitals": f"{__name__}:Capitals"}
    plugin = ModuleType("lab")
    plugin.register_views = hookimpl(lambda: mine)  # type: ignore[attr-defined]
    catalogue = Registry.of(plugin)
    model: Any = None
    assert viewers_for(model, {"letters"}, catalogue) == {"capitals": Capitals}
    assert viewers_for(model, {}, catalogue) == {}
