"""Compiles each kernel to machine code for three generations of cards; none is needed for it, and none has run them.

A row is a kernel, a dtype and a target: registers of a thread, shared memory of a program, and what spills from
registers to memory. The compiler and the assembler are those of the package triton. Rows go to results/kernels.json.

python benchmarks/machine_code.py [--only TEXT] [--dtypes NAME ...] [--targets N ...]
"""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import torch
from measuring import record

from peirce.kernels.triton_tiles import accumulator

# float16 is compiled as bfloat16 is, and float64 is for references: both for one target. Odd numbers of tokens change
# nothing where a row of memory is a pair's channels.
TARGETS = {80: "A100", 90: "H100", 120: "RTX 50"}
DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.float64: "fp64"}
MODULES = ("peirce_folnet.kernels.trans", "peirce.kernels.triton_norm", "peirce_folnet.kernels.pairs")
INTEGERS = {"B", "N", "X", "A", "Y", "D", "H", "period"}
ONES = {"ka", "vy", "ma"}
"""Strides that are 1 in the layouts that Peirce has, as the launcher finds out."""
REALS = {"rate", "epsilon"}
SUMMED = {"norms", "slopes", "dweight", "dbias", "dw1", "db1", "dw2", "ds", "db"}
"""Pointers to what is kept in the precision of sums."""
CONSTANTS = {
    "MASKED": True,
    "DROPS": True,
    "WEIGHT": True,
    "BIAS": True,
    "PRECISION": "ieee",
    "BD": 64,
    "SPLITS": 128,
}
"""The most that a kernel does, for relations of 64 channels."""


def arguments(kernel: Any, module: Any, dtype: torch.dtype) -> tuple[dict[str, str], dict[str, Any]]:
    """The types of a kernel's arguments, and the values of those that are constants."""
    types: dict[str, str] = {}
    constants = {**CONSTANTS, **module.BLOCKS[dtype.itemsize], "SUM": accumulator(dtype)}
    for parameter in kernel.params:
        name = parameter.name
        if parameter.is_constexpr:
            types[name] = "constexpr"
        elif name in ONES:
            types[name], constants[name] = "constexpr", 1
        elif name in REALS:
            types[name] = "fp32"
        elif name in INTEGERS or (len(name) == 2 and name[0] in "kvm" and name[1] in "dbxay"):
            types[name] = "i32"
        elif name in ("mask", "seed"):
            types[name] = {"mask": "*u8", "seed": "*i64"}[name]
        else:
            kept = torch.float64 if dtype == torch.float64 else torch.float32
            types[name] = f"*{DTYPES[kept if name in SUMMED else dtype]}"
    return types, {name: value for name, value in constants.items() if name in types}


def compiled(
    kernel: Any, types: dict[str, str], values: dict[str, Any], target: int, warps: int, even: bool
) -> dict[str, int]:
    """Registers, shared memory and spills of a kernel; `even` says that numbers of tokens are multiples of 16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import get_ptxas

    attributes = {
        (i,): [["tt.divisibility", 16]]
        for i, (name, kind) in enumerate(types.items())
        if kind[0] == "*" or name in ("D", "H") or (even and kind == "i32")
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
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="kernels whose names have it; none is kept"
    )
    parser.add_argument(
        "--dtypes", nargs="+", default=list(DTYPES.values()), help="bf16 and others; of fewer, none is kept"
    )
    parser.add_argument("--targets", nargs="+", type=int, default=list(TARGETS), help="compute capabilities")
    asked = parser.parse_args()
    rows = []
    for module in map(importlib.import_module, MODULES):
        for (dtype, name), launched in product(DTYPES.items(), module.LAUNCHED):
            if asked.only not in launched or name not in asked.dtypes:
                continue
            kernel = getattr(module, launched)
            types, values = arguments(kernel, module, dtype)
            cases = [(target, True) for target in asked.targets if target == 90 or name in ("bf16", "fp32")]
            cases += [(90, False)] * (name == "bf16" and module.__name__.endswith("trans"))
            for target, even in cases:
                made = compiled(kernel, types, values, target, module.WARPS, even)
                tokens = "a multiple of 16" if even else "odd"
                what = {"kernel": launched, "dtype": name, "target": f"sm_{target}", "card": TARGETS[target]}
                rows.append({**what, "tokens": tokens, **made})
                print(*rows[-1].values(), flush=True)
    if not asked.only and len(asked.dtypes) == len(DTYPES):
        record("kernels", rows)


if __name__ == "__main__":
    main()
