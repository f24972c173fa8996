"""Heads whose predictions or losses are not what they say: dropout, -100, means, needs, outputs, gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import at_least_float32
from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, mean_cross_entropy
from wrong import flaw, flawed, wrong


@frozen(kw_only=True)
class TaggerOptions:
    """What is predicted."""

    tags: int = field(default=3, validator=validators.ge(2))
    smoothing: float = field(default=0.1, validator=[validators.ge(0), validators.lt(1)])


class Tagger(Head):
    """A linear map of each token's dropped-out atoms; the loss is the mean over the tokens that have a tag."""

    name = "tagger"
    Options = TaggerOptions
    labels = "int64 [b, x]: each token's tag; -100 where there is none"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.options = options
        self.rate = dims.dropout
        self.dense = nn.Linear(dims.unary, options.tags)

    def outputs(self) -> tuple[TensorSpec, ...]:
        dims = ("batch", "length", self.options.tags)
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning="Scores of the tags."),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        return {"logits": encoded.scope.zero_unary(self.dense(self.dropped(encoded.unary)))}

    def dropped(self, unary: Tensor) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""
        return F.dropout(unary, self.rate, self.training)

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        return mean_cross_entropy(outputs["logits"], labels, self.options.smoothing)


flaw(
    Tagger, "purity", "drops_in_evaluation", "Drops out whether it is trained or not.",
    dropped=lambda self, unary: F.dropout(unary, 0.1),
)  # fmt: skip
flaw(
    Tagger, "modes", "drops_by_the_rate_it_keeps",
    "Drops out in training at a rate of its own where the model has none.",
    dropped=lambda self, unary: F.dropout(unary, 0.1, self.training),
)  # fmt: skip
flaw(
    Tagger, "gradients", "detaches_atoms", "Trains itself alone, and lets nothing through to the network.",
    dropped=lambda self, unary: Tagger.dropped(self, unary.detach()),
)  # fmt: skip
flaw(
    Tagger, "precision", "half_atoms", "Reads the atoms in half precision.",
    dropped=lambda self, unary: Tagger.dropped(self, unary.to(torch.bfloat16).to(unary.dtype)),
)  # fmt: skip


@flawed(Tagger, "dropped", "purity")
def zeroes_in_place(self: Tagger, unary: Tensor) -> Tensor:
    """Zeroes a channel of the atoms that other heads read too."""
    if not unary.requires_grad:
        unary[..., 0] = 0.0
    return Tagger.dropped(self, unary)


flaw(
    Tagger, "options", "no_smoothing", "Has an option that nothing reads.",
    loss=lambda self, outputs, labels: mean_cross_entropy(outputs["logits"], labels),
)  # fmt: skip
flaw(
    Tagger, "targets", "counts_the_ignored", "Takes -100 for the first tag.",
    loss=lambda self, outputs, labels: Tagger.loss(self, outputs, labels.clamp_min(0)),
)  # fmt: skip


@flawed(Tagger, "loss", "targets")
def mean_over_everything(self: Tagger, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
    """Divides by the number of tokens, those without a tag included."""
    logits = outputs["logits"].flatten(0, 1).float()
    smoothing = self.options.smoothing
    total = F.cross_entropy(logits, labels.flatten(), reduction="sum", label_smoothing=smoothing)
    return total / labels.numel()


@flawed(Tagger, "loss", "targets")
def nothing_is_not_a_number(self: Tagger, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
    """Divides zero by zero where no token has a tag."""
    logits = outputs["logits"].flatten(0, 1).float()
    return F.cross_entropy(logits, labels.flatten(), label_smoothing=self.options.smoothing)


@wrong("targets")
class MeanOfMeans(Tagger):
    """Takes the mean of each row, and then of these, so that a token of a short row counts for more."""

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        rows = zip(outputs["logits"].split(1), labels.split(1), strict=True)
        return torch.stack([super(MeanOfMeans, self).loss({"logits": o}, t) for o, t in rows]).mean()


flaw(
    Tagger, "targets", "sum_of_rows", "Adds up rows where it should take their mean.",
    loss=lambda self, outputs, labels: Tagger.loss(self, outputs, labels) * len(labels),
)  # fmt: skip


@flawed(Tagger, "loss", "loss_numerics")
def writes_into_labels(self: Tagger, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
    """Makes its mask by writing into the labels."""
    value = Tagger.loss(self, outputs, labels)
    labels[labels < 0] = 0
    return value


@flawed(Tagger, "loss", "loss_numerics")
def centres_in_place(self: Tagger, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
    """Takes the largest logit off where the logits are, which does no more the second time."""
    with torch.no_grad():
        outputs["logits"].sub_(outputs["logits"].amax(-1, keepdim=True))
    return Tagger.loss(self, outputs, labels)


@flawed(Tagger, "loss", "loss_numerics")
def log_of_softmax(self: Tagger, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
    """Takes the logarithm of a softmax, which is zero for logits that are far apart."""
    logits = outputs["logits"].flatten(0, 1).float()
    counts = labels.flatten() >= 0
    logs = logits.softmax(1).log()
    chosen = logs.gather(1, labels.flatten().clamp_min(0)[:, None]).squeeze(1)
    smoothing = self.options.smoothing
    each = (1 - smoothing) * chosen + smoothing * logs.mean(1)
    return -torch.where(counts, each, 0.0).sum() / counts.sum().clamp_min(1)


flaw(
    Tagger, "loss", "says_nothing_of_labels", "Does not say what its labels are.",
    labels="",
)  # fmt: skip
flaw(
    Tagger, "loss", "says_another_shape", "Says that it takes one label for each example.",
    labels="int64 [b]: the right class",
)  # fmt: skip


flaw(
    Tagger, "loss", "loss_for_each_token", "Leaves the mean to whoever trains.",
    loss=lambda self, outputs, labels: F.cross_entropy(
        outputs["logits"].flatten(0, 1).float(), labels.flatten(), reduction="none"
    ),
)  # fmt: skip


class Tied(Head):
    """The word embeddings as a classifier of each token's mapped atoms."""

    name = "tied"
    labels = "int64 [b, x]: the word; -100 where nothing is to be predicted"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.vocabulary = dims.vocabulary
        self.dense = nn.Linear(dims.unary, dims.unary)

    def outputs(self) -> tuple[TensorSpec, ...]:
        dims = ("batch", "length", self.vocabulary)
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning="Scores of the words."),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        hidden = self.dense(encoded.unary).tanh()
        return {"logits": encoded.scope.zero_unary(hidden @ self.words(encoded).T)}

    def words(self, encoded: Encoded) -> Tensor:
        """[v, d1]."""
        return encoded.embeddings

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        return mean_cross_entropy(outputs["logits"], labels)


@wrong("calls")
class KeepsTheWords(Tied):
    """Keeps the embeddings of its first call."""

    kept: Tensor | None = None

    def words(self, encoded: Encoded) -> Tensor:
        if self.kept is None or self.kept.dtype != encoded.embeddings.dtype:
            self.kept = encoded.embeddings
        return self.kept


class Verdict(Head):
    """A linear map of the pooled output and of the mean relation."""

    name = "verdict"
    needs: frozenset[Literal["pooled", "binary", "past"]] = frozenset({"pooled", "binary"})  # type: ignore[misc]
    labels = "int64 [b]: the right class"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.pooled = nn.Linear(dims.pooled, 2)
        self.binary = nn.Linear(dims.binary, 2) if dims.binary else None

    def outputs(self) -> tuple[TensorSpec, ...]:
        return (
            TensorSpec(name="logits", dtype="float", dims=("batch", 2), meaning="Scores of the classes."),
        )

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        assert encoded.pooled is not None
        logits = self.pooled(encoded.pooled)
        if encoded.binary is not None and self.binary is not None:
            logits = logits + self.binary(self.mean(encoded.binary, encoded))
        return {"logits": logits}

    def mean(self, binary: Tensor, encoded: Encoded) -> Tensor:
        """[b, d2], over the pairs in scope."""
        if encoded.scope.pairs is None:
            return binary.mean((1, 2))
        count = encoded.scope.pairs.sum((1, 2)).clamp_min(1)[:, None]
        return encoded.scope.zero_binary(binary).sum((1, 2)) / count

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        return mean_cross_entropy(outputs["logits"], labels)


flaw(
    Verdict, "needs", "needs_in_secret", "Reads the pooled output, and does not say that it needs one.",
    needs=frozenset({"binary"}),
)  # fmt: skip
flaw(
    Verdict, "padding", "mean_of_padded_pairs", "Takes the mean over all pairs, padding included.",
    mean=lambda self, binary, encoded: binary.mean((1, 2)),
)  # fmt: skip
flaw(
    Verdict, "shapes", "declares_one_class", "Declares one score for each example, and gives two.",
    outputs=lambda self: (TensorSpec(name="logits", dtype="float", dims=("batch", 1), meaning="The score."),),
)  # fmt: skip


flaw(
    Tagger, "loss", "says_what_it_lost", "Gives its loss as a number, which nothing is trained by.",
    loss=lambda self, outputs, labels: Tagger.loss(self, outputs, labels).detach(),
)  # fmt: skip
flaw(
    Tagger, "loss_numerics", "single_loss", "Rounds its predictions to float32, whatever the model is in.",
    loss=lambda self, outputs, labels: Tagger.loss(self, {"logits": outputs["logits"].float()}, labels),
)  # fmt: skip
flaw(
    Tagger, "gradients", "trains_without_atoms", "Lets nothing through to the network while it is trained.",
    dropped=lambda self, unary: Tagger.dropped(self, unary.detach() if self.training else unary),
)  # fmt: skip


flaw(
    Tagger, "devices", "weighs_on_the_processor", "Makes a constant of its loss on the CPU.",
    loss=lambda self, outputs, labels: Tagger.loss(
        self, {"logits": outputs["logits"] + torch.zeros(outputs["logits"].shape[-1])}, labels
    ),
)  # fmt: skip
flaw(
    Tagger, "precision", "rounds_its_loss", "Computes its loss in float32, and gives it back as if it were exact.",
    loss=lambda self, outputs, labels: Tagger.loss(self, {"logits": outputs["logits"].float()}, labels).double(),
)  # fmt: skip


@frozen(kw_only=True)
class FocusOptions:
    """How much less a token counts that is known."""

    gamma: float = field(default=2.0, validator=validators.ge(0))


class Focus(Tagger):
    """The focal loss, -(1 - p) ** gamma * log p of the right tag's probability, whose slope at p = 1 stays finite."""

    name = "focus"
    Options = FocusOptions
    least = 1e-6

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(TaggerOptions(), dims)
        self.gamma = options.gamma

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        logits = at_least_float32(outputs["logits"]).flatten(0, 1)
        logs = -F.cross_entropy(logits, labels.flatten(), reduction="none", ignore_index=-100)
        weights = (
            (1 - logs.exp()).clamp_min(self.least) ** self.gamma
            if self.least
            else (1 - logs.exp()) ** self.gamma
        )
        return -(weights * logs).sum() / (labels >= 0).sum().clamp_min(1)


flaw(
    Focus, "loss_numerics", "focus_without_an_end", "Has no slope where it is certain, with gamma below 1.",
    least=0.0,
)  # fmt: skip


flaw(
    Tagger, "outside", "speaks_of_padding", "Gives scores of padding, too.",
    forward=lambda self, encoded, tokens: {"logits": self.dense(self.dropped(encoded.unary))},
)  # fmt: skip
