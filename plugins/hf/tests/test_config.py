"""The configuration: a spec goes into config.json and comes out again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_specs import FOLNET, TRANSFORMER
from transformers import AutoConfig

from peirce.errors import SpecError
from peirce.registry import load_spec, ready_specs
from peirce_hf import PeirceConfig, PeirceModel

READY = sorted(ready_specs())


@pytest.mark.parametrize("name", READY)
def test_every_ready_spec_goes_through_the_file(name: str, tmp_path: Path) -> None:
    spec = load_spec(name)
    PeirceConfig(spec=spec, num_labels=5).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, PeirceConfig)
    assert config.to_spec() == spec
    assert config.num_labels == 5


@pytest.mark.parametrize("spec", [FOLNET, TRANSFORMER], ids=lambda spec: spec.architecture)
def test_sizes_are_the_spec_s(spec: object) -> None:
    config = PeirceConfig(spec=spec)  # type: ignore[arg-type]
    sizes = (config.vocab_size, config.hidden_size, config.num_hidden_layers, config.num_attention_heads)
    assert sizes == (40, 24, 2, 3)
    assert (config.max_position_embeddings, config.type_vocab_size, config.pad_token_id) == (32, 2, 0)
    assert config.initializer_range == 0.02
    assert not hasattr(PeirceConfig(), "vocab_size")


def test_what_is_no_spec_is_refused() -> None:
    with pytest.raises(SpecError, match="no spec"):
        PeirceModel(PeirceConfig())
    with pytest.raises(SpecError, match=r"config\.json.*'architecture'"):
        PeirceConfig(spec={"name": "x", "architectur": "folnet", "dims": {}})


def test_a_registry_does_not_import_transformers() -> None:
    code = (
        "import sys, peirce, peirce_hf\n"
        "assert 'pretrained' in [each.name for each in peirce.default_registry().entries('architectures')]\n"
        "assert 'transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
