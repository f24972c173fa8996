"""tpru: a recurrence that unbinds fillers from its state and from the token, and binds their mixture to roles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.kernels import Cache
from peirce.parts import Dims, RecurrentOperator, without_autocast
from peirce_tpru.operators.fused import recurrence

_Pair: TypeAlias = tuple[Tensor, Tensor]
SMALLEST = 1e-7
"""The sum of the squared fillers is at least this, so that no filler divides by zero."""


@frozen(kw_only=True)
class TPRUOptions:
    """The unit's size and its published variants.

    Args:
        roles: N, the number of role vectors and of unbinding vectors. They cost no parameters.
        tanh: whether the candidate state goes through tanh, as in eq. 2; the published code has none.
        state_map: whether the state goes through a map of its own before it is unbound. The published code has one,
            eq. 4 has none.
        bias: whether the maps have biases. The published code has them, the paper's counts have none.
    """

    roles: int = field(default=512, validator=validators.ge(1))
    tanh: bool = True
    state_map: bool = False
    bias: bool = False


class Fillers(nn.Module):
    """Hands on the fillers of each step for a hook to read: which roles each token binds."""

    def forward(self, fillers: Tensor) -> Tensor:
        """[b, N], the shares of the roles at one token, to the same tensor."""
        return fillers

    @property
    def is_read(self) -> bool:
        """Whether a hook reads the fillers in this pass, which then goes step by step."""
        return bool(self._forward_hooks)


class TPRU(RecurrentOperator):
    """b_t = g_t tanh(R f_t) + (1 - g_t) b_{t-1}: fillers f_t of N roles, a share each, between state and token.

    The roles R and the unbinding vectors U are two maps of one frozen normal basis. They are computed once a pass, and
    once for all passes without gradients. What depends on tokens alone is computed for all of them at once. With
    gradients, a whole text is one function whose weights' gradients are one product each.

    Parameters: `state` maps the state to the unbinding input, where there is a map, and to the gate, [(d) + d, d];
    `token` maps the token to both, [2d, d']; `vectors` maps the basis to R and U, [2d, d].
    """

    name = "tpru"
    source = "TPRU (Tang et al., 2018), eq. 2-7"
    Options = TPRUOptions

    def __init__(self, options: TPRUOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.size, size = dims.recurrent, dims.recurrent
        outputs = {"state": size * (1 + options.state_map), "token": 2 * size, "vectors": 2 * size}
        inputs = {"state": size, "token": dims.unary, "vectors": size}
        for name, width in inputs.items():
            bound = 1 / math.sqrt(width)
            self.register_parameter(
                f"{name}_weight", nn.Parameter(torch.empty(outputs[name], width).uniform_(-bound, bound))
            )
            bias = nn.Parameter(torch.empty(outputs[name]).uniform_(-bound, bound)) if options.bias else None
            self.register_parameter(f"{name}_bias", bias)
        self.state_offset = nn.Parameter(torch.ones(1))
        self.token_offset = nn.Parameter(torch.ones(1))
        self.register_buffer("basis", torch.randn(options.roles, size))
        self.fillers = Fillers()
        self._vectors, self._of_state, self._of_token = Cache[_Pair](), Cache[_Pair](), Cache[_Pair]()

    def read(self, atoms: Tensor) -> Tensor:
        """The token's fillers after their rectifier, and its part of the gate: [b, x, d1] -> [b, x, N + r]."""
        sizes = [self.options.roles, self.size]
        fillers, gate = self._read(atoms, self._role_vectors()[1]).split_with_sizes(sizes, -1)
        return torch.cat([F.relu(fillers), gate], -1)

    def weights(self) -> Mapping[str, Tensor]:
        """The roles R [N, r]; and what multiplies the state: its fillers' rows, then its gate's, [N + r, r]."""
        return self._weights(*self._role_vectors())

    def _weights(self, roles: Tensor, unbinding: Tensor) -> Mapping[str, Tensor]:
        state, offset = self._of_state.get(
            self._tensors(), lambda: self._unbinding_map("state", unbinding, mapped=self.options.state_map)
        )
        return {"roles": roles, "state": state, "offset": offset}

    def _read(self, atoms: Tensor, unbinding: Tensor) -> Tensor:
        """The token's fillers before their rectifier, and its part of the gate: [..., d1] -> [..., N + r]."""
        # With many tokens it is less work to multiply the two maps first, and without gradients that is done once.
        once = torch.compiler.is_compiling() or not torch.is_grad_enabled()
        if once or atoms.shape[:-1].numel() > self.options.roles:
            whole = self._of_token.get(
                self._tensors(), lambda: self._unbinding_map("token", unbinding, mapped=True)
            )
            return F.linear(atoms, *whole)
        weight, bias = self.get_parameter("token_weight"), self._bias("token")
        unbound, gate = F.linear(atoms, weight, bias).split_with_sizes([self.size, self.size], -1)
        offset = self.token_offset.expand(self.options.roles)
        return torch.cat([F.linear(unbound, unbinding, offset), gate], -1)

    def _unbinding_map(self, name: str, unbinding: Tensor, *, mapped: bool) -> _Pair:
        """What gives the fillers and the gate of a state or a token: [N + r, r or d1] and [N + r]."""
        weight, bias = self.get_parameter(f"{name}_weight"), self._bias(name)
        offset, fillers = self.get_parameter(f"{name}_offset").expand(self.options.roles), unbinding
        if mapped:
            with without_autocast(weight):
                fillers = unbinding @ weight[: self.size]
                if bias is not None:
                    offset = offset + unbinding @ bias[: self.size]
        gate_offset = weight.new_zeros(self.size) if bias is None else bias[-self.size :]
        return torch.cat([fillers, weight[-self.size :]]), torch.cat([offset, gate_offset])

    def initial(self) -> Mapping[str, Tensor]:
        """Zeros, [r]."""
        return {"state": self.state_offset.new_zeros(self.size)}

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """See `RecurrentOperator.step`."""
        last, sizes = state["state"], [self.options.roles, self.size]
        state_part, state_gate = F.linear(last, weights["state"], weights["offset"]).split_with_sizes(
            sizes, -1
        )
        token, token_gate = read.split_with_sizes(sizes, -1)
        squares = (F.relu(state_part) + token).square()
        fillers = self.fillers(squares / squares.sum(-1, keepdim=True).clamp_min(SMALLEST))
        candidate = fillers @ weights["roles"]
        if self.options.tanh:
            candidate = candidate.tanh()
        gate = (state_gate + token_gate).sigmoid()
        output = gate * candidate + (1 - gate) * last
        return output, {"state": output}

    def fused(self, atoms: Tensor) -> Tensor | None:
        """The whole text as one function, unless a hook reads the fillers."""
        if self.fillers.is_read:
            return None
        roles, unbinding = self._role_vectors()
        weights = self._weights(roles, unbinding)
        # [x, b, ...]: what a step reads lies together.
        read = self._read(atoms.transpose(0, 1).contiguous(), unbinding)
        return recurrence(
            read, weights["state"], weights["offset"], roles, self.options.tanh, SMALLEST
        ).transpose(0, 1)

    def reference(self, atoms: list[list[float]], parameters: Mapping[str, Any]) -> list[list[float]]:
        """Token by token, role by role: eq. 2 to 7."""
        p, d = parameters, self.size
        roles = [_affine(p, "vectors", vector) for vector in p["basis"]]  # R, then U
        state, outputs = [0.0] * d, []
        for atom in atoms:
            unbound, gate = state, _affine(p, "state", state)
            if self.options.state_map:
                unbound, gate = gate[:d], gate[d:]
            read = _affine(p, "token", atom)
            squares = []
            for vectors in roles:
                state_part = (
                    sum(u * b for u, b in zip(vectors[d:], unbound, strict=True)) + p["state_offset"][0]
                )
                token = sum(u * x for u, x in zip(vectors[d:], read[:d], strict=True)) + p["token_offset"][0]
                squares.append((max(state_part, 0.0) + max(token, 0.0)) ** 2)
            total = max(sum(squares), SMALLEST)
            for i in range(d):
                candidate = sum(vectors[i] * s / total for vectors, s in zip(roles, squares, strict=True))
                candidate = math.tanh(candidate) if self.options.tanh else candidate
                share = 1 / (1 + math.exp(-(gate[i] + read[d + i])))
                gate[i] = share * candidate + (1 - share) * state[i]
            state = gate
            outputs.append(list(state))
        return outputs

    def _role_vectors(self) -> _Pair:
        """R and U, [N, r] each."""

        def make() -> _Pair:
            basis = self.get_buffer("basis")
            with without_autocast(basis):  # what is kept serves passes with and without it
                roles, unbinding = self._map("vectors", basis).split_with_sizes([self.size] * 2, -1)
            return roles, unbinding

        return self._vectors.get(self._tensors(), make)

    def _tensors(self) -> list[Tensor | None]:
        return [*self._parameters.values(), *self._buffers.values()]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TPRU:
        """Forget what was made of the parameters where the unit changes its dtype or device."""
        for kept in (self._vectors, self._of_state, self._of_token):
            kept.clear()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def _map(self, name: str, values: Tensor) -> Tensor:
        return F.linear(values, self.get_parameter(f"{name}_weight"), self._bias(name))

    def _bias(self, name: str) -> Tensor | None:
        return self.get_parameter(f"{name}_bias") if self.options.bias else None


def _affine(parameters: Mapping[str, Any], name: str, values: list[float]) -> list[float]:
    """A map of one vector, number by number, with a bias where there is one."""
    rows, bias = parameters[f"{name}_weight"], parameters.get(f"{name}_bias")
    return [
        sum(w * v for w, v in zip(row, values, strict=True)) + (0.0 if bias is None else bias[i])
        for i, row in enumerate(rows)
    ]
