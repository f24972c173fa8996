"""A language model from text to text: pretrained on next tokens, it writes, in torch and from its exported file."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from command_line import exit_code as run
from small_specs import DECODER, ENCODER_DECODER, FOLNET
from small_texts import RECIPE

from peirce.compose import build
from peirce.errors import InputError, ModelFileError, TaskError
from peirce.model import ASSETS
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_text.text.tokenizer import FILE, Tokenizer
from peirce_text.text.writer import open_writer


@pytest.fixture(scope="module")
def trained(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has read the texts, with its two exported files beside it."""
    out = tmp_path_factory.mktemp("causal") / "model"
    recipe = out.parent / "tiny.toml"
    recipe.write_text(RECIPE.replace("folnet-base", "folnet-causal").replace('"sop"', '"causal"'))
    data = ("--data", texts / "train-0.txt", texts / "train-1.txt", "--valid", texts / "valid.txt")
    sets = ("--set", "train.test_split=", "--set", "train.evaluate_every=0")
    assert run("pretrain", recipe, *data, *sets, "--tokenizer", texts / "tokenizer.json", "-o", out) == 0
    assert run("export", out, "--to", "onnx", "-o", out / "model.onnx", "--set", "generate=true") == 0
    return out


def test_what_it_writes_is_like_what_it_read(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("generate", trained, "The judge", "the captain mends", "--max-new", 20, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["schema"] == "peirce.generate/1"
    first, second = printed["texts"]
    sentence = r"the (judge|clerk|lawyer) (reads|signs|files) the (letters|claims|deeds) today\."
    assert re.match(sentence, first["text"]), first
    assert re.match(r"the captain mends the (sails|ropes|barrels) today\.", second["text"]), second
    assert first["prompt"] == "The judge"
    assert len(first["tokens"]) <= 20
    assert first["ended"] == (first["tokens"][-1] == Tokenizer.load(trained).sep_id)


def test_the_exported_file_writes_alike_without_torch(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for how in ((), ("--beams", 3), ("--top-p", 0.9, "--temperature", 0.7, "--seed", 5)):
        capsys.readouterr()
        assert run("generate", trained, "the smith", "", *how, "--max-new", 12) == 0
        wanted = capsys.readouterr().out
        assert run("generate", trained / "model.onnx", "the smith", "", *how, "--max-new", 12) == 0
        assert capsys.readouterr().out == wanted
        assert len(wanted.splitlines()) == 2
    script = (
        "import sys; from pathlib import Path; from peirce_text.text.writer import open_writer\n"
        "open_writer(Path(sys.argv[1])).write(['the'], max_new=2); print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", script, str(trained / "model.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


def test_prompts_come_from_files_too(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("the cook\nthe guest heats\n")
    capsys.readouterr()
    assert run("generate", trained, "--file", file, "--max-new", 3) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["cook", "guest"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(file.read_text()))
    assert run("generate", trained / "model.onnx", "--file", "-", "--max-new", 3) == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a prompt"),
        (("a", "--file", "b"), "--file"),
        (("a", "--beams", 2, "--sample"), "sample and beams = 2"),
        (("a", "--temperature", 0), "temperature"),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[object, ...], message: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run("generate", trained, *arguments) != 0
    assert message in " ".join(capsys.readouterr().err.split())


def saved(spec: Spec, folder: Path, texts: Path, registry: Registry, **changes: Any) -> Path:
    tokenizer = Tokenizer.load(texts)
    sizes = {"model.input.vocabulary": tokenizer.vocabulary, "model.regularisation.init_std": 0.5}
    build(spec.replace({**sizes, **changes}), seed=2, registry=registry).save(folder)
    (folder / ASSETS).mkdir()
    (folder / ASSETS / FILE).write_bytes(tokenizer.content)
    return folder


def test_the_tokenizer_of_another_model_is_refused(trained: Path, tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(200))]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    with pytest.raises(TaskError, match=r"give its own with --tokenizer"):
        open_writer(trained, tmp_path / "vocab.txt")


@pytest.mark.parametrize("kind", ["causal", "prefix", "two stacks"])
def test_each_kind_of_model_reads_prompts(kind: str, texts: Path, tmp_path: Path, registry: Registry) -> None:
    spec = ENCODER_DECODER if kind == "two stacks" else DECODER
    changes = {"model.scope.kind": "prefix"} if kind == "prefix" else {}
    folder = saved(spec, tmp_path / "model", texts, registry, **changes)
    tokenizer = Tokenizer.load(texts)
    ids = [tokenizer.cls_id, *tokenizer.pieces("the clerk signs")]
    writer = open_writer(folder)
    assert writer.whole == (kind != "causal")
    seen: dict[str, Any] = {}

    def watched(inputs: dict[str, Any], **settings: Any) -> Any:
        seen.update({name: values.tolist() for name, values in inputs.items()})
        return writer.generate(inputs, **settings)

    both = ["the clerk signs", "the"]
    alone, _ = attrs.evolve(writer, generate=watched).write(both, max_new=4, eos_id=None)
    end = [] if kind == "causal" else [tokenizer.sep_id]
    rows = [[*ids, *end], [tokenizer.cls_id, *tokenizer.pieces("the"), *end]]
    lengths = [len(row) for row in rows]
    assert seen["input_ids"] == [rows[0], rows[1] + [tokenizer.pad_id] * (lengths[0] - lengths[1])]
    assert [sum(row) for row in seen["attention_mask"]] == lengths
    assert seen.get("prefix_length") == (lengths if kind == "prefix" else None)
    assert seen.get("decoder_input_ids") == ([[tokenizer.cls_id]] * 2 if kind == "two stacks" else None)
    told = tokenizer.decode(alone.tokens)
    assert alone.text == (tokenizer.decode([*ids, *alone.tokens]) if kind == "causal" else told)
    # What stands beside a prompt in its batch does not change its text.
    assert writer.write(["the clerk signs"], max_new=4, eos_id=None)[0].tokens == alone.tokens


def test_what_cannot_write_is_refused(texts: Path, tmp_path: Path, registry: Registry) -> None:
    no_writer = saved(FOLNET, tmp_path / "encoder", texts, registry)
    with pytest.raises(InputError, match="no head that predicts next tokens"):
        open_writer(no_writer)
    writes = saved(DECODER, tmp_path / "decoder", texts, registry)
    (writes / ASSETS / FILE).unlink()
    with pytest.raises(TaskError, match="holds no tokenizer"):
        open_writer(writes)
    with pytest.raises(ModelFileError, match="neither a saved model nor an exported file"):
        open_writer(tmp_path / "nothing.onnx")
