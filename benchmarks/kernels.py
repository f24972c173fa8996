"""Compiles each kernel to machine code for three generations of cards; none is needed for it, and none has run them.

A row is a kernel, a dtype and a target: registers of a thread, shared memory of a program, and what spills from
registers to memory. The compiler and the assembler are those of the package triton. Rows go to results/kernels.json.

python benchmarks/kernels.py [--print]
"""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
from measuring import record

from peirce.kernels.choice import accumulator

TARGETS = {80: "A100", 90: "H100", 120: "RTX 50"}
DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.float64: "fp64"}
MODULES = ("triton_trans",)
ONES = {"ka", "vy", "ma"}
"""Strides that are 1 in the layouts that Peirce has, as the launcher finds out."""
SUMMED = {"norms", "slopes"}
"""Pointers to what is kept in the precision of sums."""


def launched(module: Any, dtype: torch.dtype) -> Iterator[tuple[Any, dict[str, str], dict[str, Any]]]:
    """Each kernel of a module that is launched, the types of its arguments, and the values of its constants."""
    for name, constants in module.LAUNCHED.items():
        kernel = getattr(module, name)
        types: dict[str, str] = {}
        values = {
            **module.BLOCKS[dtype.itemsize],
            "MASKED": True,
            "PRECISION": "ieee",
            "SUM": accumulator(dtype),
            **constants,
        }
        for parameter in kernel.params:
            if parameter.is_constexpr:
                types[parameter.name] = "constexpr"
            elif parameter.name in ONES:
                types[parameter.name], values[parameter.name] = "constexpr", 1
            elif parameter.name == "mask":
                types[parameter.name] = "*u8"
            elif parameter.name in module.POINTERS:
                kept = DTYPES[torch.float64 if dtype == torch.float64 else torch.float32]
                types[parameter.name] = f"*{kept if parameter.name in SUMMED else DTYPES[dtype]}"
            else:
                types[parameter.name] = "fp32" if parameter.name == "epsilon" else "i32"
        yield kernel, types, {key: value for key, value in values.items() if key in types}


def compiled(
    kernel: Any, types: dict[str, str], values: dict[str, Any], target: int, warps: int, even: bool
) -> dict[str, int]:
    """Registers, shared memory and spilled bytes of a kernel; `even` says that sizes are multiples of 16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import get_ptxas

    known = ("*", "i") if even else ("*",)
    attributes = {
        (i,): [["tt.divisibility", 16]] for i, kind in enumerate(types.values()) if kind[0] in known
    }
    source = triton.compiler.ASTSource(kernel, types, values, attributes)
    made = triton.compile(source, GPUTarget("cuda", target, 32), {"num_warps": warps})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ptx")
        path.write_text(made.asm["ptx"], encoding="utf-8")
        name = re.search(r"\.target (sm_\w+)", made.asm["ptx"])
        assert name is not None
        command = [
            get_ptxas(target).path,
            "-v",
            f"-arch={name[1]}",
            str(path),
            "-o",
            str(Path(folder, "cubin")),
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = {
        what: sum(map(int, re.findall(rf"(\d+) {what}", said)))
        for what in ("registers", "bytes spill stores")
    }
    return {
        "registers": found["registers"],
        "shared bytes": made.metadata.shared,
        "spilled bytes": found["bytes spill stores"],
        "machine code, bytes": len(made.asm["cubin"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--print", action="store_true", help="print the rows and keep none")
    asked = parser.parse_args()
    rows = []
    for module in (importlib.import_module(f"peirce.kernels.{name}") for name in MODULES):
        for dtype, name in DTYPES.items():
            for kernel, types, values in launched(module, dtype):
                for (target, card), even in product(TARGETS.items(), (True, False)):
                    made = compiled(kernel, types, values, target, module.WARPS, even)
                    sizes = "multiples of 16" if even else "odd"
                    what = {"kernel": kernel.__name__, "dtype": name, "target": f"sm_{target}", "card": card}
                    rows.append({**what, "sizes": sizes, **made})
                    if asked.print:
                        print(*rows[-1].values(), flush=True)
    if not asked.print:
        record("kernels", rows)


if __name__ == "__main__":
    main()
