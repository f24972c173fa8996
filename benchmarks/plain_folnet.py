"""FOLNet as one would write it from the paper: a module for each operator, an einsum for each equation.

Nothing is fused, no rows are worked on in blocks, and relations pass through every layer whole. It is the peer that
`models.py` measures Peirce against. Its parameters are a Peirce model's, so that the two can be seen to agree.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import peirce

EPS = 1e-12


class Join(nn.Module):
    """u[h,s](x) = sum_a K[h](x,a) v[h,s](a)."""

    def __init__(self, d1: int, d2: int, heads: int, size: int) -> None:
        super().__init__()
        self.heads = heads
        self.kernel = nn.Linear(d2, heads, bias=False)
        self.premise = nn.Linear(d1, heads * size)
        self.output = nn.Linear(heads * size, d1)

    def forward(self, u: Tensor, b: Tensor) -> Tensor:
        kernel = self.kernel(b).softmax(2)
        premise = self.premise(u).unflatten(2, (self.heads, -1))
        return self.output(torch.einsum("bxah,bahs->bxhs", kernel, premise).flatten(2))


class Mu(nn.Module):
    """u[h,s](x) = sum_a K[h](x,a) v[s](x,a)."""

    def __init__(self, d1: int, d2: int, heads: int, size: int) -> None:
        super().__init__()
        self.kernel = nn.Linear(d2, heads, bias=False)
        self.premise = nn.Linear(d2, size, bias=False)
        self.output = nn.Linear(heads * size, d1)

    def forward(self, u: Tensor, b: Tensor) -> Tensor:
        kernel = self.kernel(b).softmax(2)
        return self.output(torch.einsum("bxah,bxas->bxhs", kernel, self.premise(b)).flatten(2))


class CJoin(nn.Module):
    """u[s,h](x) = sum_a K[s,h](a) v[s](a,x), as it was published."""

    def __init__(self, d1: int, d2: int, heads: int, size: int) -> None:
        super().__init__()
        self.heads = heads
        self.kernel = nn.Linear(d1, heads * size, bias=False)
        self.premise = nn.Linear(d2, size)
        self.output = nn.Linear(heads * size, d1)

    def forward(self, u: Tensor, b: Tensor) -> Tensor:
        kernel = self.kernel(u).softmax(1).unflatten(2, (-1, self.heads))
        return self.output(torch.einsum("bash,baxs->bxsh", kernel, self.premise(b)).flatten(2))


class Assoc(nn.Module):
    """u[h](x,y) = sum_w K[h,w](x) v[h,w](y)."""

    def __init__(self, d1: int, d2: int, heads: int, size: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, size**-0.25
        self.kernel = nn.Linear(d1, heads * size)
        self.premise = nn.Linear(d1, heads * size)
        self.output = nn.Linear(heads, d2)

    def forward(self, u: Tensor, b: Tensor) -> Tensor:
        kernel, premise = (
            (linear(u) * self.scale).unflatten(2, (self.heads, -1)) for linear in (self.kernel, self.premise)
        )
        return self.output(torch.einsum("bxhw,byhw->bxyh", kernel, premise))


class Prod(nn.Module):
    """u[h](x,y) = sum_w K[h,w](x) v[w](x,y)."""

    def __init__(self, d1: int, d2: int, heads: int, size: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, size**-0.25
        self.kernel = nn.Linear(d1, heads * size)
        self.premise = nn.Linear(d2, size)
        self.output = nn.Linear(heads, d2)

    def forward(self, u: Tensor, b: Tensor) -> Tensor:
        kernel = (self.kernel(u) * self.scale).unflatten(2, (self.heads, -1))
        return self.output(torch.einsum("bxhw,bxyw->bxyh", kernel, self.premise(b) * self.scale))


class Trans(nn.Module):
    """u[d](x,y) = sum_a K[d](x,a) v[d](a,y)."""

    def __init__(self, d1: int, d2: int, heads: int, size: int) -> None:
        super().__init__()
        self.kernel = nn.Linear(d2, d2, bias=False)
        self.premise = nn.Linear(d2, d2, bias=False)
        self.output = nn.Linear(d2, d2)

    def forward(self, u: Tensor, b: Tensor) -> Tensor:
        kernel = self.kernel(b).softmax(2)
        return self.output(torch.einsum("bxad,bayd->bxyd", kernel, self.premise(b)))


class Clause(nn.Module):
    """A hidden layer with gelu."""

    def __init__(self, width: int, hidden: int, output: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.output = nn.Linear(hidden, output)

    def forward(self, atoms: Tensor) -> Tensor:
        return self.output(F.gelu(self.hidden(atoms)))


class Bool(nn.Module):
    """u(x) += MLP(u(x)); u(x,y) += MLP([u(x,y), u(y,x)]) + S u(y,x)."""

    def __init__(self, d1: int, d2: int) -> None:
        super().__init__()
        self.unary = Clause(d1, 4 * d1, d1)
        self.binary = Clause(2 * d2, 4 * d2, d2)
        self.converse = nn.Linear(d2, d2)

    def forward(self, u: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        converse = b.transpose(1, 2)
        return self.unary(u), self.binary(torch.cat([b, converse], -1)) + self.converse(converse)


TO_UNARY = {"join": Join, "mu": Mu, "cjoin": CJoin}
TO_BINARY = {"assoc": Assoc, "trans": Trans, "prod": Prod}


class Layer(nn.Module):
    """All operators on the normalised atoms, then bool on the normalised result."""

    def __init__(self, d1: int, d2: int, heads: int, size: int) -> None:
        super().__init__()
        self.to_unary, self.to_binary = (
            nn.ModuleDict({name: part(d1, d2, heads, size) for name, part in parts.items()})
            for parts in (TO_UNARY, TO_BINARY)
        )
        self.bool = Bool(d1, d2)

    def forward(self, u: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        nu, nb = normalised(u), normalised(b)
        for operator in self.to_unary.values():
            u = u + operator(nu, nb)
        for operator in self.to_binary.values():
            b = b + operator(nu, nb)
        more_u, more_b = self.bool(normalised(u), normalised(b))
        return u + more_u, b + more_b


class PlainFolNet(nn.Module):
    """The encoder, and the heads for masked tokens and next sentences where there are any.

    Args:
        model: a Peirce model of FOLNet with the layer jmc.atp and the position `distance`; its parameters are copied.
    """

    def __init__(self, model: peirce.Model) -> None:
        super().__init__()
        dims = model.plan.dims
        self.clip: int = model.plan.positions[0].options.clip
        self.words = nn.Embedding(dims.vocabulary, dims.unary)
        self.types = nn.Embedding(dims.token_types, dims.unary)
        self.distances = nn.Embedding(2 * self.clip + 2, dims.binary)
        self.layers = nn.ModuleList(
            Layer(dims.unary, dims.binary, dims.heads, dims.head_size) for _ in range(dims.layers)
        )
        self.pooler = nn.Linear(dims.unary, dims.unary)
        self.heads = bool(model.heads)
        if self.heads:
            self.mlm = nn.Linear(dims.unary, dims.unary)
            self.mlm_bias = nn.Parameter(torch.zeros(dims.vocabulary))
            self.nsp = nn.Linear(dims.unary, 2)
        self.load_state_dict({_plain_name(name): value for name, value in model.state_dict().items()})

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        """Token ids [b, x] -> unary, binary, pooled and the heads' scores."""
        u = normalised(self.words(ids) + self.types.weight[0])
        b = normalised(self.distances(self._distance_ids(ids.shape[1]))).expand(len(ids), -1, -1, -1)
        for layer in self.layers:
            u, b = layer(u, b)
        u, b = normalised(u), normalised(b)
        outputs = {"unary": u, "binary": b, "pooled": self.pooler(u[:, 0]).tanh()}
        if self.heads:
            hidden = normalised(F.gelu(self.mlm(u)))
            outputs["mlm_logits"] = F.linear(hidden, self.words.weight, self.mlm_bias)
            outputs["nsp_logits"] = self.nsp(outputs["pooled"])
        return outputs

    def _distance_ids(self, length: int) -> Tensor:
        place = torch.arange(length)
        offset = place.unsqueeze(0) - place.unsqueeze(1)
        ids = torch.where(
            offset < 0, 2 * self.clip + offset.clamp_min(1 - self.clip), offset.clamp_max(self.clip - 1)
        )
        ids[0, 1:], ids[1:, 0] = 2 * self.clip, 2 * self.clip + 1
        return ids


def normalised(atoms: Tensor) -> Tensor:
    return F.layer_norm(atoms, atoms.shape[-1:], eps=EPS)


NAMES: Mapping[str, str] = {
    "network.input.embedding": "words",
    "network.input.token_type": "types",
    "network.input.positions.0.table": "distances",
    "network.pooler.dense": "pooler",
    "heads.mlm.dense": "mlm",
    "heads.mlm.bias": "mlm_bias",
    "heads.nsp.dense": "nsp",
}


def _plain_name(name: str) -> str:
    """What a parameter of a Peirce model is called here."""
    for theirs, ours in NAMES.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    _, layers, number, _, _, operator, *rest = name.split(".")
    group = {**dict.fromkeys(TO_UNARY, "to_unary."), **dict.fromkeys(TO_BINARY, "to_binary.")}.get(
        operator, ""
    )
    return ".".join([layers, number, group + operator, *rest])
