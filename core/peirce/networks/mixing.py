"""From a plan's operators to one stage of a network.

`Mixing` wires the operators of a layer that mix tokens: it normalises the atoms, reads channels from the
branches, keeps their mask contract, and adds what they infer. Its projections are fused, and a third party's operator
is fused like any other.

One description holds for every pass, whether all rows are worked on at once or block by block. Take `j.t`, a join that
writes properties and a trans that writes relations, for b examples of x tokens, h heads and d binary channels:

    1. unary atoms   [b, x, d1] -> values of join           [b, x, h, s]   from all tokens
    2. binary atoms  [b, x, y, d2] -> premise of trans      [b, a, y, d]   early: rows attend to it, so all is read
    3. each block of rows x of an example:
       its binary atoms -> kernel of join   [1, rows, a, h]                late: only these rows need it
                           kernel of trans  [1, rows, a, d]
       join  -> [1, rows, h, s]   kept for the product that writes properties
       trans -> [1, rows, y, d] -> product -> + binary atoms of the block
    4. what join inferred for all rows [b, x, h, s] -> product -> + unary atoms

So of what has all pairs only (2) and the new atoms ever exist whole, and (3) stays in a CPU's cache. Without blocks
everything is read in (2), in one product, and all operators infer at once; (3) is the product that writes relations.
An operator that weighs by unary logits, as cjoin does, works on every row at once in either case, and so does one that
reads nothing of its own rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast, final

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from peirce.algebra import NORM_EPS, Attended, Norm, Predicates, Scope, standardise
from peirce.kernels import (
    FusedLinear,
    PairTerm,
    Rotation,
    fused_norm,
    in_blocks,
    on_cpu,
    rotate,
    uses_blocks,
    uses_blocks_in_training,
    uses_kernel,
    write_channels,
)
from peirce.networks.channels import (
    CachedState,
    Channels,
    Group,
    Mask,
    Product,
    Projections,
    ReadingKey,
    channel_count,
    drop_out,
    groups_of,
    read_terms,
)
from peirce.parts import AttentionOperator, Branch, Dims, Plan, PlannedOperator, PureOperator, Reader, Writer


@final
class Norms(nn.Module):
    """One norm for each branch; atoms outside the scope become exact zeros after it."""

    def __init__(self, dims: Dims, *, affine: bool = False, epsilon: float = NORM_EPS) -> None:
        super().__init__()
        self.unary = Norm(dims.unary, affine=affine, epsilon=epsilon)
        self.binary = Norm(dims.binary, affine=affine, epsilon=epsilon)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """Both branches, in the dtype that they come in."""
        assert state.binary is not None
        return Predicates(
            _norm_in_scope(self.unary, state.unary, scope), _norm_in_scope(self.binary, state.binary, scope)
        )

    @property
    def is_plain(self) -> bool:
        """Whether the norms are what an epsilon says and no more: they have neither weights nor hooks."""
        norms = self.unary, self.binary
        return all(isinstance(norm, Norm) and norm.weight is None for norm in norms) and not any(
            module._forward_hooks or module._forward_pre_hooks for module in self.modules()
        )


class UnaryNorm(NamedTuple):
    """The norm of a network that keeps unary atoms alone, [b, x, d1] -> [b, x, d1]."""

    unary: nn.Module
    binary: Any = None


class _ExecutionPlan(NamedTuple):
    """How a pass works through the binary branch: what is read once for all rows, and what for each block of rows;
    `at_once` has the numbers of the operators that infer all rows at once, `by_kernel` of those with a kernel."""

    early: list[Product]
    late: list[Product]
    at_once: list[int]
    in_blocks: bool = False
    separate: bool = False
    by_kernel: Collection[int] = ()


@final
class Mixing(nn.Module):
    """The operators of one layer that mix tokens, in parallel.

    Args:
        plan: the plan; its `mixing` operators are wired.
        operators: the projections of each operator, owned by the layer under their canonical names.
        normed: whether what is inferred is added to the normalised atoms, and not to those that came in.
    """

    def __init__(self, plan: Plan, operators: Sequence[Projections], *, normed: bool = False) -> None:
        super().__init__()
        self.normed = normed
        self.plans, self.dropout, self.fuse = plan.mixing, plan.dims.dropout, plan.fuse
        self.groups = groups_of(self.plans)
        self._projections = tuple(operators)  # a tuple, since the layer owns them
        outputs = [cast(Writer, planned.output) for planned in self.plans]
        self._outputs = [channel_count(output) for output in outputs]
        self._writes: dict[str, list[int]] = {
            branch: [i for i, output in enumerate(outputs) if output.branch == branch] for branch in "UB"
        }
        self._writers = {
            branch: FusedLinear([(operators[i], "output", 1.0) for i in numbers], "inputs", fuse=plan.fuse)
            for branch, numbers in self._writes.items()
            if numbers
        }
        self._rotated = [group.key for group in self.groups if group.rotates]
        unary, binary = ([g for g in self.groups if g.branch == branch] for branch in "UB")
        all_operators = list(range(len(self.plans)))
        at_once = [i for i, planned in enumerate(self.plans) if _infers_all_rows(planned.readings.values())]
        early = [g for g in binary if g.cached_as is not None or g.key[0] in at_once]
        late = [g for g in binary if g not in early]
        self._unary_whole = [Product(unary, operators, fuse=plan.fuse)] if unary else []
        self._unary_separate = [Product([g], operators, fuse=False) for g in unary]
        self._whole = _ExecutionPlan(
            [Product(binary, operators, fuse=plan.fuse)] if binary else [], [], all_operators
        )
        self._separate = _ExecutionPlan(
            [Product([g], operators, fuse=False) for g in binary], [], all_operators, separate=True
        )
        self._layouts = _ExecutionPlan(_products_by_layout(binary, operators), [], all_operators)
        self._rows = _ExecutionPlan(
            _products_by_layout(early, operators),
            _products_by_layout(late, operators),
            at_once,
            in_blocks=True,
        )
        products = [*self._unary_whole, *self._whole.early, *self._layouts.early]
        products += [*self._rows.early, *self._rows.late]
        self.fused = nn.ModuleList([*(p.reader for p in products), *self._writers.values()])
        self._readers = [
            *(p.reader for p in (*self._unary_whole, *self._whole.early)),
            *self._writers.values(),
        ]
        self._attended = tuple(Attended(planned.name) for planned in self.plans)
        self.attended = nn.ModuleList(self._attended)
        self._drops = [any(map(_drops_inside, planned.readings.values())) for planned in self.plans]
        self._with_kernel = [i for i, planned in enumerate(self.plans) if _has_kernel(planned)]

    def forward(
        self,
        state: Predicates,
        norms: Norms | UnaryNorm,
        scope: Scope,
        terms: Sequence[PairTerm | Rotation] = (),
        cache: CachedState | None = None,
    ) -> tuple[Predicates, CachedState]:
        """The atoms with what the operators infer from the normalised atoms added, dropped out in training.

        Args:
            state: unary [b, x, d1], binary [b, x, y, d2]; None where no operator reads or writes these.
            norms: of both branches.
            scope: who may attend to whom.
            terms: what positions do here: rotations of the rows' queries and keys, and what they add to the operators
                that score pairs and sum values.
            cache: the keys and values of the tokens before; None when every token is a row and none follows.

        Returns:
            The new atoms, and the keys and values for later tokens. Without `cache` there are none of these.
        """
        binary = state.binary
        biases = [term for term in terms if not isinstance(term, Rotation)]
        execution = self._execution_plan(binary, biases)
        normal = scope.zero_unary(norms.unary(state.unary))
        channels: Channels = {}
        for product in self._unary_separate if execution.separate else self._unary_whole:
            channels |= product.read(normal, *product.reader.weights(), scope)
        if len(biases) < len(terms):
            channels |= {key: rotate(channels[key], terms) for key in self._rotated}
        if execution.early and binary is not None:
            channels |= self._read_early(execution, binary, norms.binary, scope)
        new_cache = {} if cache is None else self._extend_cache(channels, cache)
        results = {
            i: self._infer(i, channels, scope, biases, self._weights(i), i in execution.by_kernel)
            for i in execution.at_once
        }
        if execution.in_blocks and binary is not None:
            binary = self._infer_late(execution, binary, norms.binary, scope, biases, channels, results)
        elif binary is not None:
            binary = scope.zero_binary(norms.binary(binary)) if self.normed else binary
            binary = self._add_written("B", binary, results, execution.separate)
        unary = normal if self.normed else state.unary
        return Predicates(self._add_written("U", unary, results, execution.separate), binary), new_cache

    def _add_written(
        self, branch: Branch, atoms: Tensor, results: Mapping[int, Tensor], separate: bool
    ) -> Tensor:
        """The atoms of a branch and what their operators write to them."""
        if branch not in self._writers:
            return atoms
        writer = self._writers[branch]
        written = [results[i].flatten(atoms.dim() - 1) for i in self._writes[branch]]
        if separate:
            return atoms + drop_out(writer.write_each(written), self._rate)
        return atoms + drop_out(write_channels(written, *writer.weights(), joined=True), self._rate)

    def is_read(self) -> bool:
        """Whether a hook reads what its operators compute between tokens in this pass."""
        return any(each.is_read for each in self._attended)

    def cached_channels(self) -> dict[str, tuple[Branch, tuple[int, ...]]]:
        """What is cached for later tokens: by name, the branch that it is read from and its channels."""
        return {g.cached_as: (g.branch, g.shape) for g in self.groups if g.cached_as is not None}

    @property
    def _rate(self) -> float:
        """The rate at which this pass drops weights and increments."""
        return self.dropout if self.training else 0.0

    def _execution_plan(self, atoms: Tensor | None, biases: Sequence[PairTerm]) -> _ExecutionPlan:
        """By blocks of rows where the atoms are large and a CPU computes, unless a hook reads whole attention weights.

        On a GPU each group is read in its own layout: a second reading of the atoms costs less than copies of channels.

        In training each map is otherwise its own product: joining the weights, the channels of every pair and their
        gradients costs more than one large product gains. Blocks are not used there where pair biases want gradients,
        whose products have blocks of their own.
        """
        if not self.fuse or not all(reader.is_plain() for reader in self._readers):
            return self._separate  # which calls maps that have hooks
        if atoms is None:
            return self._whole
        if by_kernel := self._operators_by_kernel(atoms, biases):
            return self._layouts._replace(by_kernel=by_kernel)
        if torch.compiler.is_compiling():
            return self._whole
        if not on_cpu(atoms):
            return self._layouts
        if uses_blocks_in_training(atoms):
            leaves = tree_leaves(list(biases))
            wanted = any(isinstance(each, Tensor) and each.requires_grad for each in leaves)
            return self._separate if wanted or self.is_read() else self._rows._replace(separate=True)
        by_rows = uses_blocks(atoms) and not self.training and not self.is_read()
        return self._rows if by_rows else self._whole

    def _operators_by_kernel(self, atoms: Tensor, biases: Sequence[PairTerm]) -> list[int]:
        """The operators whose own kernels are asked; none whose weights a hook or a pair position reads."""
        if not self._with_kernel or not uses_kernel("relations", atoms):
            return []
        read = [
            self._attended[i].is_read or bool(biases and self.plans[i].part.pair) for i in self._with_kernel
        ]
        return [i for i, each in zip(self._with_kernel, read, strict=True) if not each]

    def _extend_cache(self, channels: Channels, cache: CachedState) -> dict[str, Tensor]:
        """Put the cached channels in front of the rows' own; return both as the next cache."""
        new_cache = {}
        for group in self.groups:
            if group.cached_as is not None:
                new_cache[group.cached_as] = channels[group.key] = group.prepend_cached(
                    channels[group.key], cache
                )
        return new_cache

    def _weights(self, i: int) -> list[Tensor]:
        """What an operator's equation learns besides its projections."""
        return [getattr(self._projections[i], name) for name in self.plans[i].weights]

    def _infer(
        self,
        i: int,
        channels: Mapping[ReadingKey, Tensor],
        scope: Scope,
        biases: Sequence[PairTerm],
        weights: Sequence[Tensor],
        by_kernel: bool = False,
    ) -> Tensor:
        planned = self.plans[i]
        inputs = [channels[i, role] for role in planned.readings]
        if by_kernel:
            dropping = scope.dropping(self._rate) if self._rate else scope
            if (result := planned.deduce_fused(inputs, dropping, weights)) is not None:
                return result
            inputs = [
                group.normalise(each.flatten(3), scope, self._rate).view_as(each)
                if group.branch == "B" and group.mask <= Mask.SOFTMAX
                else each
                for group, each in zip((g for g in self.groups if g.key[0] == i), inputs, strict=True)
            ]
        if self._rate and self._drops[i]:
            scope = scope.dropping(self._rate)
        attended = self._attended[i]
        through = attended if _is_attention(planned) else None
        terms = read_terms(biases, planned, self._projections[i])
        result = planned.deduce(inputs, scope, terms, through, weights)
        if attended.is_read:
            _emit_attention(planned, inputs, result, scope, attended)
        return result

    def _read_early(self, execution: _ExecutionPlan, atoms: Tensor, norm: Norm, scope: Scope) -> Channels:
        """Read keys, values and what is needed of all rows at once, each group in its own layout."""
        weights = _norm_and_map_weights(norm, execution.early)
        if not execution.in_blocks:
            normal = _normalise(atoms, weights, norm.epsilon, scope)
            return self._read(execution.early, normal, weights, scope, execution.by_kernel)
        batch, length, width = atoms.shape[:3]
        groups = [group for product in execution.early for group in product.groups]

        def read(items: slice, rows: slice, block: Tensor, *weights: Tensor | None) -> list[Tensor]:
            part = scope.part(items, rows)
            found = self._read(execution.early, _normalise(block, weights, norm.epsilon, part), weights, part)
            return [found[group.key].flatten(3) for group in groups]

        places = [
            atoms.new_empty(group.width, batch, length, width).permute(1, 2, 3, 0)
            if group.tokens_last
            else atoms.new_empty(batch, length, width, group.width)
            for group in groups
        ]
        pieces = in_blocks(
            read,
            places,
            channels=_widest_channels(execution.early),
            rows=[atoms],
            whole=weights,
            random=self._rate > 0,
        )
        return {
            group.key: piece.view(batch, length, width, *group.shape)
            for group, piece in zip(groups, pieces, strict=True)
        }

    def _infer_late(
        self,
        execution: _ExecutionPlan,
        binary: Tensor,
        norm: Norm,
        scope: Scope,
        biases: Sequence[PairTerm],
        channels: Channels,
        results: dict[int, Tensor],
    ) -> Tensor:
        """Infer what is not inferred yet, block by block, and write it; what writes properties goes to `results`."""
        late = [i for i in range(len(self.plans)) if i not in results]
        cached = {group.key for group in self.groups if group.cached_as is not None}
        by_rows = [key for key in channels if key[0] in late and key not in cached]
        by_items = [key for key in channels if key[0] in late and key in cached]
        inferred = [i for i in results if i in self._writes["B"]]
        unary = [i for i in late if i in self._writes["U"]]
        writer = self._writers["B"].weights() if "B" in self._writers else (None, None)

        def infer(items: slice, rows: slice, block: Tensor, *tensors: Tensor | None) -> list[Tensor]:
            given = iter(tensors)
            found = {i: cast(Tensor, next(given)) for i in inferred}
            block_channels = {key: cast(Tensor, next(given)) for key in (*by_rows, *by_items)}
            own = {i: [cast(Tensor, next(given)) for _ in self.plans[i].weights] for i in late}
            *weights, weight, bias = given
            part, block_biases = scope.part(items, rows), [each.part(items, rows) for each in biases]
            normal = _normalise(block, weights, norm.epsilon, part)
            block_channels |= self._read(execution.late, normal, weights, part)
            found |= {i: self._infer(i, block_channels, part, block_biases, own[i]) for i in late}
            old = normal if self.normed else block
            new = old.clone()
            if weight is not None:
                written = [found[i].flatten(3) for i in self._writes["B"]]
                new = old + drop_out(write_channels(written, weight, bias, joined=False), self._rate)
            return [new, *(found[i].flatten(2) for i in unary)]

        places = [torch.empty_like(binary)]
        places += [binary.new_empty(*binary.shape[:2], self._outputs[i]) for i in unary]
        deduced, *others = in_blocks(
            infer,
            places,
            channels=_widest_channels(execution.late),
            rows=[binary, *(results[i] for i in inferred), *(channels[key] for key in by_rows)],
            items=[channels[key] for key in by_items],
            whole=[
                *(weight for i in late for weight in self._weights(i)),
                *_norm_and_map_weights(norm, execution.late),
                *writer,
            ],
            random=self._rate > 0,
        )
        results |= zip(unary, others, strict=True)
        return deduced

    def _read(
        self,
        products: Sequence[Product],
        normal: Tensor,
        weights: Sequence[Tensor | None],
        scope: Scope,
        logits: Collection[int] = (),
    ) -> Channels:
        """Read channels of normalised binary atoms, all rows or a block, with their weights."""
        _, _, *maps = weights
        channels: Channels = {}
        for product, weight, bias in zip(products, maps[::2], maps[1::2], strict=True):
            channels |= product.read(normal, cast(Tensor, weight), bias, scope, self._rate, logits)
        return channels


@final
class SourceReader(nn.Module):
    """A decoder's keys and values of its source tokens: its operators' channels, read from the source's final atoms.

    Args:
        plan: the plan.
        operators: the projections of each mixing operator, made with `source`.

    Source: FOLNet (Chen, 2023), Appendix A.5: premises of join and assoc and kernels of cjoin are joined to the
    decoder's own, and trans reads the encoder's relations v^E.
    """

    def __init__(self, plan: Plan, operators: Sequence[Projections]) -> None:
        super().__init__()
        groups = [group for group in groups_of(plan.mixing) if group.cached_as is not None]
        self.products = {
            branch: Product(selected, operators, fuse=plan.fuse, prefix="source_")
            for branch in "UB"
            if (selected := [g for g in groups if g.branch == branch])
        }
        self.fused = nn.ModuleList(product.reader for product in self.products.values())

    def forward(
        self, source: Predicates, scope: Scope, rotations: Sequence[Rotation] = ()
    ) -> dict[str, Tensor]:
        """The cached state of a decoder's layer before its first token.

        Args:
            source: the encoder's final atoms; unary [b, a, d1], binary [b, a, y, d2].
            scope: the encoder's.
            rotations: of the source tokens, whose keys are turned.
        """
        cache = {}
        for branch, product in self.products.items():
            atoms = source.unary if branch == "U" else source.binary
            assert atoms is not None
            channels = product.read(atoms, *product.reader.weights(), scope)
            channels |= {g.key: rotate(channels[g.key], rotations) for g in product.groups if g.rotates}
            cache.update({cast(str, g.cached_as): channels[g.key] for g in product.groups})
        return cache


def _products_by_layout(groups: Sequence[Group], operators: Sequence[Projections]) -> list[Product]:
    """One product for each layout that there is."""
    separate = ((last, [g for g in groups if g.tokens_last == last]) for last in (True, False))
    return [Product(selected, operators, tokens_last=last) for last, selected in separate if selected]


def _normalise(atoms: Tensor, weights: Sequence[Tensor | None], epsilon: float, scope: Scope) -> Tensor:
    """Normalised binary atoms, zero outside the scope; `weights` are those of `_norm_and_map_weights`."""
    scale, shift, *_ = weights
    fused = fused_norm(atoms, scale, shift, scope.pairs, epsilon)
    return scope.zero_binary(standardise(atoms, scale, shift, epsilon)) if fused is None else fused


def _norm_in_scope(norm: Norm, atoms: Tensor, scope: Scope) -> Tensor:
    """Normalised atoms, zero outside the scope."""
    zero, mask = (scope.zero_unary, scope.tokens) if atoms.dim() == 3 else (scope.zero_binary, scope.pairs)
    plain = isinstance(norm, Norm) and not (norm._forward_hooks or norm._forward_pre_hooks)  # or none at all
    fused = fused_norm(atoms, norm.weight, norm.bias, mask, norm.epsilon) if plain else None
    return zero(norm(atoms)) if fused is None else fused


def _norm_and_map_weights(norm: Norm, products: Sequence[Product]) -> list[Tensor | None]:
    """The weight and the bias of a norm, then those of each product."""
    return [norm.weight, norm.bias, *(each for product in products for each in product.reader.weights())]


def _widest_channels(products: Sequence[Product]) -> int:
    """The most channels that one product reads."""
    return max((sum(product.widths) for product in products), default=1)


def _infers_all_rows(readers: Collection[Reader]) -> bool:
    """Whether an operator infers all rows at once: `weigh` needs the whole scope, or no reading belongs to rows."""
    weighs = any(reader.branch == "U" and reader.activation == "softmax" for reader in readers)
    return weighs or all(reader.cached for reader in readers)


def _has_kernel(planned: PlannedOperator) -> bool:
    """Whether an operator brings a kernel of its own."""
    part = planned.part
    return not issubclass(part, AttentionOperator) and part.fused is not PureOperator.fused


def _drops_inside(reader: Reader) -> bool:
    """Whether weights of a reading are made, and so dropped, by the operator."""
    return reader.dropout and not (reader.branch == "B" and reader.activation == "softmax")


def _emit_attention(
    planned: PlannedOperator, channels: Sequence[Tensor], result: Tensor, scope: Scope, attended: Attended
) -> None:
    """Let hooks read what an operator has read and inferred of pairs; `deduce` has handed on weights of attention."""
    for i, (role, reader) in enumerate(planned.readings.items()):
        weights = reader.activation == "softmax"
        if reader.branch == "B" and not (i == 0 and _is_attention(planned)):
            attended(channels[i].flatten(3), role, weights)
        elif reader.branch == "U" and weights:
            logits = channels[i].flatten(2).unsqueeze(1)
            attended(scope.softmax(logits.expand(-1, result.shape[1], -1, -1)), role, True)
    if planned.output is not None and planned.output.branch == "B":
        attended(scope.zero_binary(result).flatten(3), "output", False)


def _is_attention(planned: PlannedOperator) -> bool:
    """Whether an operator sums values by weights between tokens, as join does."""
    first = next(iter(planned.readings.values()))
    weighs = first.branch == "B" and first.activation == "softmax"
    return planned.part.pair == "attention" or (planned.part.pair == "value" and weighs)
