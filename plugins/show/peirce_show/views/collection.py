"""From a model and a text to views: which viewers show the model, and with which options."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from peirce.compose import load
from peirce.errors import TaskError, check_known
from peirce.model import WEIGHTS, saved_files
from peirce.registry import class_named, default_catalogue
from peirce.spec import parse_override, structure
from peirce_show.hooks import VIEWS
from peirce_show.observation import observe
from peirce_show.viewers import View, Viewer, viewers_for


@frozen(kw_only=True)
class ViewOptions:
    """What is asked of the viewer of every model.

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

    def for_viewer(self, name: str, kind: type[Viewer]) -> Any:
        """The options of a viewer, with the settings.

        Raises:
            SpecError: the viewer has no such option.
        """
        given = dict(map(parse_override, self.settings))
        return structure(kind.Options, given, where=lambda key: "--set", label=f"option of view {name!r}")


def collect_views(name: str, texts: Sequence[str], options: ViewOptions) -> list[View]:
    """The views of one model.

    Args:
        name: the folder of a saved model, or the name of a view that needs none.
        texts: what the model reads.
        options: which views, and how.

    Raises:
        TaskError: there is neither a model nor such a view, or nothing to see.
        ModelFileError: the model cannot be loaded.
        SpecError: a setting is no option of the view.
    """
    observer = partial(observe, channel=options.channel, channels=options.channels)
    if not Path(name).is_dir():
        return [_viewer_without_model(name, options).view(texts, observer)]
    folder, model = Path(name), load(name).eval()
    with saved_files(folder, without=(WEIGHTS,)) as files:
        kinds = viewers_for(model, files.assets)
    if options.view is not None:
        check_known("view of this model", options.view, kinds, TaskError)
        kinds = {options.view: kinds[options.view]}
    if not kinds:
        raise TaskError(
            f"no view shows the model in {folder}, which reads more than tokens; a plug-in adds one by "
            "`register_views`"
        )
    views = [
        kind(options.for_viewer(title, kind), folder, model).view(texts, observer)
        for title, kind in kinds.items()
    ]
    if not any(view.matrices or view.marks for view in views):
        raise TaskError(
            f"{folder} has nothing to look at: the architecture {model.spec.architecture!r} computes nothing between "
            "pairs of tokens that can be read; choose a model of transformer or folnet, or one with the recurrence tpru"
        )
    # Models of one spec, trained with several seeds, differ by their folders.
    return [
        evolve(view, name=f"{view.name} ({folder.name})") if view.name != folder.name else view
        for view in views
    ]


def _viewer_without_model(name: str, options: ViewOptions) -> Viewer:
    """The viewer of this name, which works without a model.

    Raises:
        TaskError: there is none.
    """
    entries = default_catalogue().entries(VIEWS)
    kinds = {each.name: class_named(VIEWS, each.name, Viewer) for each in entries}
    known = [title for title, kind in kinds.items() if kind.works_alone]
    if name not in known:
        remedy = (
            "it needs a model: give its folder first" if name in kinds else "train one with `peirce train`"
        )
        raise TaskError(
            f"there is no folder of a saved model {name}; {remedy}. Views that need no model: {', '.join(known)}"
        )
    kind: Any = kinds[name]
    viewer: Viewer = kind(options.for_viewer(name, kind))
    return viewer
