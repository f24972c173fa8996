"""From a model and a text to views: which viewer shows the model, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from peirce.compose import load
from peirce.errors import TaskError, check_known
from peirce.model import WEIGHTS, View, Viewer, observe, saved_files
from peirce.registry import class_named, default_catalogue, viewers_for
from peirce.spec import parse_override, structure


@frozen(kw_only=True)
class Look:
    """What is asked of every model.

    Args:
        channel: the head or channel that is kept, from 1; if None, their mean and the first `channels`.
        channels: how many are kept beside the mean.
        view: the view's name; all that show the model if None.
        settings: options of the view, `KEY=VALUE`.
    """

    channel: int | None = None
    channels: int = 8
    view: str | None = None
    settings: tuple[str, ...] = ()

    def views(self, name: str, texts: Sequence[str]) -> list[View]:
        """What there is to see.

        Args:
            name: the folder of a saved model, or the name of a view that needs none.
            texts: what it reads.

        Raises:
            TaskError: there is neither, or nothing to see. ModelFileError: the model cannot be loaded.
            SpecError: an option is none of the view's.
        """
        seeing = partial(observe, channel=self.channel, channels=self.channels)
        if not Path(name).is_dir():
            return [self._alone(name).view(texts, seeing)]
        folder, model = Path(name), load(name).eval()
        with saved_files(folder, without=(WEIGHTS,)) as files:
            kinds = viewers_for(model, files.assets)
        if self.view is not None:
            check_known("view of this model", self.view, kinds, TaskError)
            kinds = {self.view: kinds[self.view]}
        if not kinds:
            raise TaskError(
                f"no view shows the model in {folder}, which reads more than tokens; a plug-in adds one by "
                "`register_views`"
            )
        views = [
            kind(self._options(title, kind), folder, model).view(texts, seeing)
            for title, kind in kinds.items()
        ]
        if not any(view.matrices or view.marks for view in views):
            raise TaskError(
                f"{folder} has nothing to look at: nothing in its architecture, {model.spec.architecture!r}, relates "
                "tokens to tokens in a way that can be read; choose a model of transformer or folnet, or one with the "
                "recurrence tpru"
            )
        # Runs of one spec with several seeds are told apart by their folders.
        return [
            evolve(view, name=f"{view.name} ({folder.name})") if view.name != folder.name else view
            for view in views
        ]

    def _alone(self, name: str) -> Viewer:
        """The viewer of this name that works without a model."""
        entries = default_catalogue().entries("views")
        kinds = {each.name: class_named("views", each.name, Viewer) for each in entries}
        known = [title for title, kind in kinds.items() if kind.works_alone]
        if name not in known:
            needed = (
                "it needs a model: give its folder first"
                if name in kinds
                else "train one with `peirce train`"
            )
            raise TaskError(
                f"there is no folder of a saved model {name}; {needed}. Views that need no model: {', '.join(known)}"
            )
        kind: Any = kinds[name]
        found: Viewer = kind(self._options(name, kind))
        return found

    def _options(self, name: str, kind: type[Viewer]) -> Any:
        given = dict(map(parse_override, self.settings))
        return structure(kind.Options, given, where=lambda key: "--set", label=f"option of view {name!r}")
