"""bool: Boolean functions of the atoms at one place, as a multilayer perceptron on each branch."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope, standardise
from peirce.kernels import in_blocks, on_cpu, uses_blocks, uses_blocks_in_training, uses_kernel
from peirce.parts import Dims, PlainMap, PlainScope, StateOperator, plain_gelu, plain_linear, plain_relu


@frozen(kw_only=True)
class BoolOptions:
    """How the hidden layer is activated.

    Args:
        activation: `gelu` for gelu(W x) (exact, by the error function), `reglu` for relu(G x) * (W x).
    """

    activation: Literal["gelu", "reglu"] = field(default="gelu", validator=validators.in_(("gelu", "reglu")))


class Bool(StateOperator):
    """u(x) += MLP(u(x)) and u(x,y) += MLP([u(x,y), u(y,x)]) + S u(y,x): what the other operators' atoms imply here."""

    name = "bool"
    letter = "b"
    typing = "UB <- UB"
    scope_rule = "pairwise"
    source = "FOLNet (Chen, 2023), Appendix A.3"
    Options = BoolOptions
    renamed: ClassVar = {"mlp": "activation"}

    def __init__(self, options: BoolOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        gated = options.activation == "reglu"
        self.unary = Clause(dims.unary, dims.feedforward_unary, dims.unary, gated=gated)
        self.binary = self.converse = None
        if dims.binary:
            self.binary = Clause(2 * dims.binary, dims.feedforward_binary, dims.binary, gated=gated)
            self.converse = nn.Linear(dims.binary, dims.binary)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of both branches; relations see their converse, which is zero outside the scope."""
        binary = None if state.binary is None else self._pairs(state.binary, scope.converse(state.binary))
        return Predicates(self.unary(state.unary), binary)

    def fused(self, state: Predicates, scope: Scope, epsilon: float, rate: float) -> Predicates | None:
        """The atoms with both increments; the hidden layer of relations is never in memory."""
        if self.binary is None or self.converse is None or state.binary is None or not self._is_plain():
            return None
        rows, columns = state.binary.shape[1:3]
        if self.binary.gate is not None or columns - rows != (scope.before or 0):
            return None
        linears = self.binary.hidden, self.binary.output, self.converse
        hidden, output, converse = ((each.weight, each.bias) for each in linears)
        width = state.binary.shape[-1]
        if not uses_kernel("bool", state.binary, *hidden, *output, *converse, whole=width):
            return None
        from peirce_folnet.kernels.pairs import pair_network

        binary = pair_network(state.binary, hidden, output, converse, scope.pairs, epsilon, rate)
        increment = self.unary(scope.zero_unary(standardise(state.unary, epsilon=epsilon)))
        return Predicates(state.unary + F.dropout(increment, rate), binary)

    def _is_plain(self) -> bool:
        """Whether the maps of relations are what their weights say and no more."""
        assert self.binary is not None
        return all(type(each) is nn.Linear for each in (self.converse, *self.binary.children()))

    def _pairs(self, atoms: Tensor, converse: Tensor) -> Tensor:
        """u(x,y) and u(y,x), both [b, x, y, d2] -> [b, x, y, d2]."""
        assert self.binary is not None
        assert self.converse is not None
        if not self._is_plain():
            return cast(Tensor, self.binary(torch.cat([atoms, converse], -1)) + self.converse(converse))
        weights = self.converse.weight, self.converse.bias, *self.binary.weights()
        if not uses_blocks(atoms) and not uses_blocks_in_training(atoms):
            return _infer(atoms, converse, *weights)
        (result,) = in_blocks(
            lambda items, rows, *tensors: [_infer(*tensors)],
            [torch.empty_like(atoms)],
            channels=self.binary.hidden.out_features,
            rows=[atoms, converse],
            whole=weights,
        )
        return result

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Both perceptrons, the second on each relation beside its converse."""

        def clause(values: Any, name: str, hidden: int, width: int) -> Any:
            inner = plain_linear(values, parameters, f"{name}.hidden", hidden)
            if self.options.activation == "gelu":
                inner = plain_gelu(inner)
            else:
                inner = inner * plain_relu(plain_linear(values, parameters, f"{name}.gate", hidden))
            return plain_linear(inner, parameters, f"{name}.output", width)

        unary = clause(given["unary"], "unary", dims.feedforward_unary, dims.unary)
        relations, tokens = given["binary"], range(len(scope))
        both = [[relations[x][y] + relations[y][x] for y in tokens] for x in tokens]
        converse = [[relations[y][x] for y in tokens] for x in tokens]
        binary = clause(both, "binary", dims.feedforward_binary, dims.binary)
        return {
            "unary": unary,
            "binary": binary + plain_linear(converse, parameters, "converse", dims.binary),
        }


class Clause(nn.Module):
    """A multilayer perceptron with one hidden layer, gated or not."""

    def __init__(self, width: int, hidden: int, output: int, *, gated: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.gate = nn.Linear(width, hidden) if gated else None
        self.output = nn.Linear(hidden, output)

    def weights(self) -> list[Tensor]:
        """Weight and bias of the hidden layer, of the output and of the gate, if there is one."""
        linears = [self.hidden, self.output, *([] if self.gate is None else [self.gate])]
        return [each for linear in linears for each in (linear.weight, linear.bias)]

    def forward(self, atoms: Tensor) -> Tensor:
        """[..., width] -> [..., output]."""
        hidden = self.hidden(atoms)
        hidden = F.gelu(hidden) if self.gate is None else F.relu(self.gate(atoms)) * hidden
        return cast(Tensor, self.output(hidden))


def _clause(
    atoms: Tensor,
    total: Tensor | None,
    hidden_weight: Tensor,
    hidden_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    gate_weight: Tensor | None = None,
    gate_bias: Tensor | None = None,
) -> Tensor:
    """The multilayer perceptron of some atoms, [..., width] -> [..., output]; a total [n, output] replaces its bias."""
    hidden = F.linear(atoms, hidden_weight, hidden_bias)
    gate = None if gate_weight is None else F.linear(atoms, gate_weight, gate_bias)
    hidden = F.gelu(hidden) if gate is None else F.relu(gate) * hidden
    if total is None:
        return F.linear(hidden, weight, bias)
    return torch.addmm(total, hidden.flatten(0, -2), weight.t()).view(*hidden.shape[:-1], -1)


def _infer(atoms: Tensor, converse: Tensor, weight: Tensor, bias: Tensor, *clause: Tensor) -> Tensor:
    """What some pairs' relations imply, u(x,y) and u(y,x), both [..., d2] -> [..., d2]."""
    if on_cpu(atoms) or torch.compiler.is_compiling():
        converse = converse.contiguous()  # once, and not in each of the two products that read it
        return _clause(torch.cat([atoms, converse], -1), None, *clause) + F.linear(converse, weight, bias)
    # On a GPU, which works on all pairs at once, each pass over them counts: the second product adds to the first.
    both = torch.cat([atoms, converse], -1)
    total = torch.addmm(bias + clause[3], both[..., atoms.shape[-1] :].flatten(0, -2), weight.t())
    return _clause(both, total, *clause)
