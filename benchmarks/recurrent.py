"""The recurrent unit TPRU beside torch's GRU and LSTM, and beside a plain loop over its equations.

Each reads a batch of vectors: one pass in inference, and one with the gradients of inputs and weights. The plain loop
computes eq. 2 to 7 token by token, as the published code does; U and R are made once a pass.

With `--threads N` time is on the clock, and the results are in `recurrent-threads.json`.

python benchmarks/recurrent.py [--repeats N] [--batch N] [--length N] [--width N] [--threads N]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from measuring import beside, parsed, record, spread, turns
from torch import Tensor, nn

from peirce.parts import Dims, NoOptions
from peirce_basics.operators.gated import GRU, LSTM
from peirce_tpru.operators.tpru import SMALLEST, TPRU, TPRUOptions

ROLES = (64, 1024)


class PlainLoop(nn.Module):
    """Eq. 2 to 7 as they stand, a product for each matrix at each token, with the weights of a unit."""

    def __init__(self, unit: TPRU) -> None:
        super().__init__()
        self.unit = unit

    def forward(self, atoms: Tensor) -> Tensor:
        """[b, x, d'] -> [b, x, d]."""
        unit = self.unit
        gate_of_state, both = unit.get_parameter("state_weight").T, unit.get_parameter("token_weight").T
        to_binding, gate_of_token = both[:, : unit.size], both[:, unit.size :]
        roles, unbinding = (unit.get_buffer("basis") @ unit.get_parameter("vectors_weight").T).chunk(2, 1)
        state, states = atoms.new_zeros(len(atoms), unit.size), []
        for token in atoms.unbind(1):
            own = (state @ unbinding.T + unit.state_offset).relu()
            new = (token @ to_binding @ unbinding.T + unit.token_offset).relu()
            squares = (own + new).square()
            fillers = squares / squares.sum(1, keepdim=True).clamp_min(SMALLEST)
            gate = (state @ gate_of_state + token @ gate_of_token).sigmoid()
            state = gate * (fillers @ roles).tanh() + (1 - gate) * state
            states.append(state)
        return torch.stack(states, 1)


def forward(network: Callable[[Tensor], Tensor | None], atoms: Tensor) -> Callable[[], object]:
    """One pass in inference."""

    def run() -> object:
        with torch.no_grad():
            return network(atoms)

    return run


def step(
    network: Callable[[Tensor], Tensor | None], parameters: list[nn.Parameter], atoms: Tensor
) -> Callable[[], object]:
    """One pass, and the gradients of the atoms and the weights."""
    atoms = atoms.clone().requires_grad_()

    def run() -> None:
        states = network(atoms)
        assert states is not None
        torch.autograd.grad(states.sum(), [atoms, *parameters])

    return run


def _plain(name: str) -> str:
    """The plain loop of a unit; no such name for torch's own."""
    return f"plain loop,{name.partition(',')[2]}"


def main() -> None:
    sizes = {"--batch": 64, "--length": 64, "--width": 512}
    options = parsed(__doc__, 7, *((name, {"type": int, "default": size}) for name, size in sizes.items()))
    torch.manual_seed(0)
    dims = Dims(layers=1, vocabulary=9, unary=options.width, recurrent=options.width)
    atoms = torch.randn(options.batch, options.length, options.width)
    gru, lstm = GRU(NoOptions(), dims), LSTM(NoOptions(), dims)
    ways: dict[str, tuple[Callable[[Tensor], Tensor | None], nn.Module]] = {
        "GRU": (gru.fused, gru),
        "LSTM": (lstm.fused, lstm),
    }
    for count in ROLES:
        unit = TPRU(TPRUOptions(roles=count), dims)
        plain = PlainLoop(unit)
        with torch.no_grad():
            torch.testing.assert_close(plain(atoms[:2, :5]), unit.fused(atoms[:2, :5]), rtol=1e-4, atol=1e-5)
        ways[f"TPRU, {count} roles"] = unit.fused, unit
        ways[f"plain loop, {count} roles"] = plain, unit
    jobs = {
        "training step": {name: step(way, list(m.parameters()), atoms) for name, (way, m) in ways.items()},
        "inference": {name: forward(way, atoms) for name, (way, _) in ways.items()},
        "inference, one text of 20 tokens": {
            name: forward(way, atoms[:1, :20]) for name, (way, _) in ways.items()
        },
    }
    rows = []
    for what, runs in jobs.items():
        times = turns(runs, options.repeats)
        rows += [
            {
                "what": what,
                "unit": name,
                **spread("ms", [1e3 * each for each in times[name]]),
                **beside("time / GRU", times[name], times["GRU"]),
                **(
                    beside("time / plain loop", times[name], times[plain])
                    if (plain := _plain(name)) in times
                    else {}
                ),
            }
            for name in runs
        ]
    record("recurrent" if options.threads == 1 else "recurrent-threads", rows)


if __name__ == "__main__":
    main()
