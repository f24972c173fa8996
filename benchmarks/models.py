"""folnet-base, eager and in ONNX Runtime, against Hugging Face's BERT base in one run.

python benchmarks/models.py [--repeats N] [--batch N] [--length N]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import peirce
import torch
from measuring import peak_bytes, record, seconds
from transformers import BertConfig, BertForPreTraining


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    options = parser.parse_args()
    torch.manual_seed(0)
    ids = torch.randint(30522, (options.batch, options.length))
    bert = BertForPreTraining(BertConfig(vocab_size=32776)).eval()
    ours = {name: peirce.build(name).eval() for name in ("folnet-base", "bert-base")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "folnet-base.onnx"
        peirce.export(ours["folnet-base"], to="onnx", path=file)
        session = peirce.Session(file, threads=torch.get_num_threads())
        inputs = {"input_ids": ids.numpy()}
        ways = {
            "BERT base, transformers": lambda: bert(ids),
            "bert-base": lambda: ours["bert-base"](input_ids=ids),
            "folnet-base": lambda: ours["folnet-base"](input_ids=ids),
            "folnet-base, ONNX Runtime": lambda: session.run(inputs),
        }
        with torch.no_grad():
            times = seconds(ways, options.repeats)
            peaks = {name: peak_bytes(way) for name, way in ways.items() if "ONNX" not in name}
    peer = "BERT base, transformers"
    record(
        "models",
        [
            {
                "model": name,
                "batch": options.batch,
                "length": options.length,
                "seconds": times[name],
                "time / BERT": times[name] / times[peer],
                "peak MiB": peaks[name] / 2**20 if name in peaks else None,
            }
            for name in ways
        ],
    )


if __name__ == "__main__":
    main()
