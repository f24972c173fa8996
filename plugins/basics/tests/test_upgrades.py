"""An upgraded model computes what it did, and all that is new learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import exit_code
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import peirce
from peirce.compose import resolve
from peirce.errors import ModelFileError, PlanError
from peirce.registry import default_registry
from peirce.spec import PartSpec
from peirce_basics.upgrades import Upgrade

DISTANCE = PartSpec(use="distance", options={"clip": 4})
OPTIONS: dict[str, list[Any]] = {
    "norm": ["post", "pre", "both", "after"], "norm_kind": ["layer", "rms"], "query_norm": ["none", "head"],
    "score_cap": [0.0, 2.0], "share": [False, True], "embedding_norm": [True, False],
}  # fmt: skip
POSITIONS = [["absolute"], ["rope"], ["t5"], ["rope", {"use": "window", "size": 2, "layers": [1]}], []]


def base(architecture: str = "transformer", **changes: Any) -> peirce.Model:
    dims = {"layers": 3, "unary": 8, "heads": 2}
    if architecture == "folnet":
        dims |= {"binary": 6, "head_size": 4}
    table = {
        "name": "base", "architecture": architecture, "dims": dims,
        "input": peirce.spec.InputSpec(vocabulary=20, max_length=16), "heads": ["mlm"], **changes,
    }  # fmt: skip
    torch.manual_seed(1)
    model = peirce.build(peirce.Spec(**table)).double().eval()
    with torch.no_grad():
        for each in model.parameters():  # larger than at first, so that every difference shows
            each.add_(0.3 * torch.randn_like(each))
    return model


def upgrade(model: peirce.Model, **gained: Any) -> peirce.Model:
    registry = default_registry()
    if "operators" in gained and not model.plan.dims.binary:
        gained.setdefault("positions", [DISTANCE])
    return peirce.upgraded(model, Upgrade(**gained).spec(model.plan, registry), registry=registry).eval()


def test_scores_are_read_where_there_are_any() -> None:
    plain = {"layer": [{"use": "attention"}, {"use": "join"}]}
    attends = {"layer": [{"use": name} for name in ("assoc", "join", "join")]}
    spec = base(
        "two_branch", dims={"layers": 2, "unary": 8, "heads": 2}, options={"from_attention": True}
    ).spec
    spec = spec.replace({"model.operators": {"layers": [plain, attends]}})
    model = peirce.build(spec)
    assert [name for name in model.state_dict() if "scores" in name] == ["network.relations.1.scores.weight"]
    with pytest.raises(PlanError, match="from_attention reads the scores of assoc and join"):
        peirce.build(spec.replace({"model.operators": {"layers": [{**plain, "repeat": 2}]}}))


def outputs(model: peirce.Model, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return dict(model(**inputs))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    options=st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(each) for name, each in OPTIONS.items()}
    ),
    positions=st.sampled_from(POSITIONS),
    scope=st.sampled_from(["bidirectional", "causal"]),
    operators=st.sampled_from(["jm.atp", "jm.", "m.p", "j.t"]),
    layers=st.sampled_from([None, [1], [0, 2]]),
    from_attention=st.booleans(),
    augmenters=st.sampled_from([[], ["tpr"], ["logical", "tpr"], ["word_vectors"]]),
)
def test_outputs_are_the_same_to_the_bit(
    options: Any,
    positions: Any,
    scope: Any,
    operators: str,
    layers: Any,
    from_attention: bool,
    augmenters: Any,
) -> None:
    old = base(options=options, positions=positions, scope=peirce.spec.ScopeSpec(kind=scope))
    new = upgrade(
        old,
        operators=operators,
        binary=5,
        positions=[DISTANCE],
        layers=layers,
        from_attention=from_attention,
        augmenters=augmenters,
    )
    for padding in ("padded", "empty"):
        inputs = new.example_inputs(padding=padding)  # type: ignore[arg-type]
        known = {spec.name for spec in old.signature.inputs}
        wanted = outputs(old, {name: value for name, value in inputs.items() if name in known})
        found = outputs(new, inputs)
        assert all(torch.equal(wanted[name], found[name]) for name in wanted)


def test_a_network_of_two_branches_gains_operators() -> None:
    old = base("folnet", operators=peirce.spec.OperatorsSpec(layer="jc.tp"))
    new = upgrade(old, operators=["mu", "assoc"])
    inputs = old.example_inputs(padding="padded")
    wanted, found = outputs(old, inputs), outputs(new, inputs)
    assert max(float((wanted[name] - found[name]).abs().max()) for name in wanted) < 1e-12


@pytest.mark.parametrize(
    ("layer", "gained"), [(["attention"], "jm.atp"), (["assoc", "join"], ["attention", "join", "assoc"])]
)
def test_operators_of_properties_alone_stand_beside_others(layer: list[str], gained: Any) -> None:
    mixing = [peirce.spec.OperatorSpec(use=name) for name in layer]
    old = base(operators=peirce.spec.OperatorsSpec(layer=mixing))
    new, inputs = upgrade(old, operators=gained), old.example_inputs(padding="padded")
    wanted, found = outputs(old, inputs), outputs(new, inputs)
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)


@pytest.mark.parametrize("architecture", ["transformer", "folnet"])
def test_relations_are_gained_before_a_layer_that_reads_them(architecture: str) -> None:
    old = base(architecture)
    if architecture == "transformer":
        old = upgrade(old, operators="jm.t", layers=[0, 1])
    new = upgrade(old, operators=["assoc"], layers=[0])
    assert len(new.state_dict()) > len(old.state_dict())
    if architecture == "transformer":  # the last layer attends, and deduces nothing
        with pytest.raises(PlanError, match="nothing would read those of layer 1"):
            upgrade(old, operators=["assoc"], layers=[1])


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    options=st.fixed_dictionaries({}, optional={"norm": st.sampled_from(OPTIONS["norm"])}),
    operators=st.sampled_from(["jm.atp", "m.t", "jc.a"]),
    from_attention=st.booleans(),
    augmenters=st.sampled_from([["logical"], ["tpr", "logical"]]),
)
def test_all_that_is_gained_moves_in_three_steps(
    options: Any, operators: str, from_attention: bool, augmenters: Any
) -> None:
    gained = {"operators": operators, "from_attention": from_attention, "augmenters": augmenters}
    assert_learns(upgrade(base(options=options), positions=[DISTANCE], **gained))


def assert_learns(new: peirce.Model) -> None:
    """Every tensor that was gained has moved after three steps, and some have a gradient at the first."""
    before = {name: value.detach().clone() for name, value in new.named_parameters() if name in new.gained}
    optimizer, inputs = torch.optim.SGD(new.parameters(), 1.0), new.example_inputs()
    for step in range(3):
        optimizer.zero_grad()
        found = new(**inputs)
        pairs = [value.square().mean() for name, value in found.items() if name.startswith("relation")]
        sum(pairs, new.loss("mlm", found, inputs["input_ids"])).backward()
        assert step or any(
            p.grad is not None and p.grad.any() for n, p in new.named_parameters() if n in before
        )
        optimizer.step()
    assert len(before) > 2
    assert not [
        name for name, value in new.named_parameters() if name in before and torch.equal(value, before[name])
    ]


@pytest.mark.parametrize("architecture", ["transformer", "folnet"])
def test_everything_new_has_moved_after_three_steps(architecture: str) -> None:
    few = peirce.spec.OperatorsSpec(layer="jc.tp")
    old = base(
        architecture, **({"operators": few, "positions": [DISTANCE]} if architecture == "folnet" else {})
    )
    gained = (
        {"operators": "jm.t", "positions": [DISTANCE]}
        if architecture == "transformer"
        else {"operators": ["mu"]}
    )
    assert_learns(upgrade(old, **gained))


def test_a_network_whose_relations_are_read_reads_its_attention_too() -> None:
    old = base("two_branch", heads=["mlm", {"use": "relation", "classes": 3}], positions=[DISTANCE])
    new = upgrade(old, operators=["assoc", "join"], from_attention=True)
    inputs = old.example_inputs(padding="padded")
    wanted, found = outputs(old, inputs), outputs(new, inputs)
    assert max(float((wanted[name] - found[name]).abs().max()) for name in wanted) < 1e-12
    assert_learns(new)
    with pytest.raises(
        PlanError, match=r"position 'distance' acts at once.*where nothing reads relations yet"
    ):
        upgrade(old, operators=["join"], positions=["distance"])


def test_an_upgraded_decoder_writes_the_same_texts(tmp_path: Path) -> None:
    causal = peirce.spec.ScopeSpec(kind="causal")
    old = base(options={"norm": "pre"}, positions=["rope"], scope=causal, heads=["causal_lm"])
    new = upgrade(old, operators="jm.at", positions=[DISTANCE], from_attention=True)
    prompts = {"input_ids": torch.tensor([[3, 4, 5], [6, 7, 8]])}
    texts = [
        [each.tokens for each in model.generate(prompts, max_new=6, cache=cache)]
        for model in (old, new)
        for cache in (True, False)
    ]
    assert texts[0] == texts[1] == texts[2] == texts[3]
    with torch.no_grad():
        for each in new.network.relations.parameters():  # type: ignore[union-attr]
            each.normal_()
    changed = [[each.tokens for each in new.generate(prompts, max_new=6, cache=c)] for c in (True, False)]
    assert changed[0] == changed[1] != texts[0]


@pytest.mark.parametrize(
    ("gained", "said"),
    [
        ({"operators": "jm.atp", "layers": [3]}, "layers are 0 to 2"),
        ({"operators": "jm.axp"}, "unknown letter 'x'"),
        ({"operators": ".a", "layers": [2]}, "nothing would read those of layer 2"),
        ({"operators": ".atp"}, "write relations alone"),
        ({"operators": "jm.atp", "positions": ["shaw", DISTANCE]}, "position 'shaw' acts at once"),
        ({"operators": ["join", "bool"]}, "'bool' has parameters of its own"),
        ({"operators": ["lstm"]}, "'lstm' has parameters of its own"),
        (
            {"operators": "jm.atp", "positions": []},
            "join, mu, trans, prod read of them in layer 0 would never learn",
        ),
        ({"positions": ["distance"]}, "no operators are given"),
        ({}, "no operators are given.*; name some, such as --operators jm.atp"),
    ],
)
def test_what_cannot_be_gained_is_said(gained: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        upgrade(base(), **gained)


def test_a_spec_that_lacks_something_is_refused() -> None:
    old = base()
    with pytest.raises(PlanError, match="must contain all that the model has"):
        peirce.upgraded(old, old.spec.replace({"model.dims.layers": 2}))
    with pytest.raises(PlanError, match=r"changes shapes: .*\[20, 8\] and would be \[20, 16\]"):
        peirce.upgraded(old, old.spec.replace({"model.dims.unary": 16}))
    other = peirce.Spec(
        name="other",
        architecture="bidaf",
        dims={"layers": 1, "unary": 8},
        input=peirce.spec.InputSpec(vocabulary=20),
    )
    plan = resolve(other, default_registry())
    with pytest.raises(PlanError, match="'bidaf'; transformer, two_branch, folnet can be upgraded"):
        Upgrade(operators="c.").spec(plan, default_registry())


def test_the_command_upgrades_a_saved_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = base().float()
    old.save(tmp_path / "old", assets={"notes/a.txt": b"kept"})
    given = [
        "upgrade",
        tmp_path / "old",
        "-o",
        tmp_path / "new",
        "--operators",
        "join, mu,assoc",
        "--positions",
        " distance",
    ]
    assert exit_code(*given, "--layers", "2-1", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["before"] < shown["parameters"]
    assert (tmp_path / "new/assets/notes/a.txt").read_bytes() == b"kept"
    new, inputs = peirce.load(tmp_path / "new").eval(), old.example_inputs()
    assert all(torch.equal(value, outputs(new, inputs)[name]) for name, value in outputs(old, inputs).items())
    assert [*new.network.relations] == ["1", "2"]  # type: ignore[arg-type]
    assert exit_code(*given[:3], tmp_path / "other", "--operators", "jm.atp", "--layers", "a") == 2
    assert "write numbers, such as 4-6 or 0,2" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_spec_begins_with_a_saved_model(tmp_path: Path) -> None:
    old = base()
    old.save(tmp_path / "old")
    spec = Upgrade(operators="jm.atp", positions=[DISTANCE], augmenters=["tpr"]).spec(
        old.plan, default_registry()
    )
    text = spec.to_toml().replace('name = "base"', 'name = "more"\nfrom = "old"')
    (tmp_path / "more.toml").write_text(text)
    new, inputs = peirce.build(tmp_path / "more.toml").eval(), old.example_inputs()
    assert new.spec.from_ is None
    assert all(torch.equal(value, outputs(new, inputs)[name]) for name, value in outputs(old, inputs).items())
    (tmp_path / "more.toml").write_text(text.replace("unary = 8", "unary = 16"))
    with pytest.raises(PlanError, match=r"'more' changes shapes: .*keep the model's sizes"):
        peirce.build(tmp_path / "more.toml")
    (tmp_path / "more.toml").write_text(text.replace("gate = true", "gate = false"))
    with pytest.raises(PlanError, match="augmenter 'tpr' without a gate acts at once"):
        peirce.build(tmp_path / "more.toml")
    (tmp_path / "more.toml").write_text(text.replace('"old"', '"none"'))
    with pytest.raises(ModelFileError, match=rf"no saved model at {tmp_path}/none"):
        peirce.build(tmp_path / "more.toml")


@pytest.fixture
def trained(tmp_path: Path) -> peirce.Model:
    """An upgraded model of which a projection has learnt beside all that is new."""
    base().float().save(tmp_path / "base")
    new = upgrade(peirce.load(tmp_path / "base"), operators="jm.at", augmenters=["tpr"])
    with torch.no_grad():
        for name, each in new.named_parameters():
            if name in new.gained or name.endswith("layers.1.operators.0.assoc.kernel.weight"):
                each.add_(torch.randn_like(each))
    return new


def test_what_was_trained_is_saved_alone(tmp_path: Path, trained: peirce.Model) -> None:
    trained.save(tmp_path / "runs/new", {"notes.txt": b"kept"}, only="trained")
    kept = {*load_file(tmp_path / "runs/new/weights.safetensors")}
    heads = {name for name in trained.state_dict() if name.startswith("heads.")}
    other = "network.transformer.layers.1.operators.0.assoc.kernel.weight"
    assert kept == trained.gained | heads | {other}
    assert {*kept} < {*trained.state_dict()}
    again = peirce.load(tmp_path / "runs/new")
    assert again.gained == trained.gained
    state = again.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in trained.state_dict().items())
    again.save(tmp_path / "again", only="trained")  # of the same base
    assert 'from = "../base"' in (tmp_path / "again/spec.toml").read_text()
    again.save(tmp_path / "whole")
    (tmp_path / "base").rename(tmp_path / "moved")
    with pytest.raises(ModelFileError, match=r"that cannot be read: .*If it has moved, give the folder"):
        peirce.load(tmp_path / "again")
    found = peirce.load(tmp_path / "again", base=tmp_path / "moved").state_dict()
    with pytest.raises(ModelFileError, match=r"itself has only what was trained.*give the folder"):
        peirce.load(tmp_path / "again", base=tmp_path / "again")
    for state in (found, peirce.load(tmp_path / "whole").state_dict()):
        assert all(torch.equal(value, state[name]) for name, value in trained.state_dict().items())
