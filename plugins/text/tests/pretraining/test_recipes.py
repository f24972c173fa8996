from __future__ import annotations

from pathlib import Path

import pytest

from peirce.compose import build, resolve
from peirce.errors import PeirceError, TaskError
from peirce.registry import Registry, load_spec
from peirce_text.pretraining.recipes import load_recipe, ready_recipes
from peirce_training import make_task, training_options

TABLE_8 = {
    "folnet-base-16g": (12, 768, 12, 3072, 1e-2, 8000, "nsp"),
    "folnet-base-160g": (12, 768, 12, 3072, 2e-3, 128_000, "sop"),
    "folnet-large-160g": (24, 1024, 16, 4096, 1.6e-3, 128_000, "sop"),
}
"""Layers, unary width, heads, feed-forward width, peak learning rate and steps; the pair of Section 4.3."""


@pytest.mark.parametrize("name", TABLE_8)
def test_table_8(name: str, registry: Registry) -> None:
    layers, unary, heads, feedforward, lr, steps, objective = TABLE_8[name]
    recipe = load_recipe(name)
    dims = resolve(load_spec(recipe.spec, recipe.model), registry).dims
    assert (dims.layers, dims.unary, dims.heads) == (layers, unary, heads)
    assert (dims.binary, dims.head_size, dims.dropout) == (64, 64, 0.1)
    assert (dims.feedforward_unary, dims.feedforward_binary) == (feedforward, 256)
    (position,) = load_spec(recipe.spec).positions
    assert (position.use, position.options["clip"]) == ("distance", 64)
    train = training_options({**recipe.train, "device": "cpu"})
    assert (train.optimizer, train.lr, train.steps, train.schedule) == ("lamb", lr, steps, "linear")
    assert (train.beta1, train.beta2, train.epsilon) == (0.9, 0.999, 1e-6)
    assert (train.weight_decay, train.clip_norm, train.warmup_ratio) == (0.01, 1.0, 0.01)
    options = make_task("pretraining", recipe.task, registry).options
    assert (options.length, options.probability, options.most_masked) == (128, 0.15, 20)
    assert options.objective == objective
    assert (recipe.batch, recipe.vocabulary) == (131_072, 32_768)
    for processes in (1, 8, 512):
        accumulated = recipe.accumulation(options.batch_size, processes)
        assert accumulated is not None
        assert accumulated * options.batch_size * processes == 131_072


@pytest.mark.parametrize("name", ready_recipes())
def test_every_ready_recipe_composes(name: str, registry: Registry) -> None:
    recipe = load_recipe(name)
    resolve(load_spec(recipe.spec, recipe.model), registry)
    training_options({**recipe.train, "device": "cpu"})
    options = make_task("pretraining", recipe.task, registry).options
    assert recipe.accumulation(options.batch_size, 1)
    assert ready_recipes()[name].read_text().startswith("# ")


def test_small_models_have_the_same_size_and_schedule(registry: Registry) -> None:
    folnet, bert = load_recipe("folnet-small"), load_recipe("bert-small")
    assert (folnet.train, folnet.task, folnet.batch) == (bert.train, bert.task, bert.batch)
    models = (build(load_spec(r.spec, r.model), registry=registry) for r in (folnet, bert))
    one, other = (sum(p.numel() for p in model.parameters()) for model in models)
    assert abs(one / other - 1) < 0.1


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    changes = "[model.dims]\nlayers = 1\n[model.positions.0]\nclip = 2\n"
    path.write_text(f'format = 1\nspec = "./tiny.toml"\n{changes}')
    recipe = load_recipe(str(path))
    assert recipe.name == "mine"
    assert Path(recipe.spec) == tmp_path / "tiny.toml"
    assert recipe.model == {"model.dims.layers": 1, "model.positions.0.clip": 2}
    assert recipe.accumulation(8, 2) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('format = 1\nspec = "a"\nbach = 3\n', "unknown key 'bach' of a recipe. Did you mean 'batch'"),
        ('format = 2\nspec = "a"\n', "format 2 is newer than 1"),
        ("format = 1\n", "spec"),
        ('format = 1\nspec = "a"\nbatch = 1.5\ntrain = 3\n', "batch must be"),
        ('format = 1\nspec = "a"\nbatch = 0\n', "batch"),
        ("format = ", "not valid TOML"),
    ],
)
def test_mistakes_in_a_recipe_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(PeirceError, match=message):
        load_recipe(str(path))
    with pytest.raises(TaskError, match="131,072 rows, which batches of 100 in 2 processes"):
        load_recipe("folnet-base-16g").accumulation(100, 2)
