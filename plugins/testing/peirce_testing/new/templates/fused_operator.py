"""new_part: an operator on relations with a kernel in Triton's language.

Layers of a spec with it:

    [[model.operators.layer]]
    use = "join"

    [[model.operators.layer]]
    use = "assoc"

    [[model.operators.layer]]
    use = "new_part"
"""

from importlib.util import find_spec
from typing import Any

import torch
from peirce.algebra import Scope
from peirce.kernels import uses_kernel
from peirce.parts import Dims, Operator, PlainMap, PlainScope, Reader, Writer, plain_linear
from torch import Tensor

BLOCK = 1024

if find_spec("triton"):
    import triton
    import triton.language as tl

    @triton.jit
    def _multiply(one, other, product, count, BLOCK: tl.constexpr):
        place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        real = place < count
        tl.store(product + place, tl.load(one + place, real) * tl.load(other + place, real), real)


@torch.library.custom_op("new_part::multiply", mutates_args=())
def multiply(one: Tensor, other: Tensor) -> Tensor:
    """The product of two tensors of one shape, number by number."""
    one, other = one.contiguous(), other.contiguous()
    product = torch.empty_like(one)
    with torch.cuda.device_of(one):
        _multiply[(-(-one.numel() // BLOCK),)](one, other, product, one.numel(), BLOCK=BLOCK)
    return product


@multiply.register_fake
def _(one: Tensor, other: Tensor) -> Tensor:
    """What the kernel gives, without its numbers: for torch.compile."""
    return one.new_empty(one.shape)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    one, other = ctx.saved_tensors
    return multiply(grad, other), multiply(grad, one)


multiply.register_autograd(_differentiate, setup_context=_keep)


class NewPart(Operator):
    """u[d](x,y) = K[d](x,y) v[d](x,y): two tokens are related in a new way where they are in two ways at once."""

    name = "new_part"
    typing = "B <- B x B"
    scope_rule = "pairwise"
    source = "the product t-norm of fuzzy logic (Hajek, 1998), channel by channel"

    def kernel(self) -> Reader:
        """K: [b, x, y, d], from the relations."""
        return Reader(branch="B", shape={"d": self.dims.binary})

    def premise(self) -> Reader:
        """v: [b, x, y, d], another reading of the relations."""
        return Reader(branch="B", shape={"d": self.dims.binary})

    def output(self) -> Writer:
        """u: [b, x, y, d], to the relations."""
        return Writer(branch="B", shape={"d": self.dims.binary})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, y, d], [b, x, y, d] -> [b, x, y, d]."""
        return kernel * premise

    def fused(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor | None:
        """The same by the kernel, where kernels are on and it takes these tensors."""
        return multiply(kernel, premise) if uses_kernel("new_part", kernel, premise) else None

    def reference(self, kernel: list[Any], premise: list[Any], scope: PlainScope) -> list[Any]:
        """Pair by pair, channel by channel."""
        rows, columns, channels = range(len(kernel)), range(len(kernel[0])), range(self.dims.binary)
        return [[[kernel[x][y][d] * premise[x][y][d] for d in channels] for y in columns] for x in rows]

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """The same behind the maps that `kernel`, `premise` and `output` ask for."""
        kernel, premise = (
            plain_linear(given["binary"], parameters, name, dims.binary) for name in ("kernel", "premise")
        )
        return {"binary": plain_linear(kernel * premise, parameters, "output", dims.binary)}
