"""Heads of one linear map: of the pooled output, of each token, or of each pair of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import at_least_float32
from peirce.errors import InputError
from peirce.parts import (
    IGNORED,
    Dims,
    Encoded,
    Head,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    check_labels,
    mean_cross_entropy,
    one_of,
    plain_cross_entropy,
    plain_linear,
    plain_relu,
    plain_sigmoid,
    plain_softmax,
)
from peirce_basics.heads.features import Batch, NGrams, like, logistic_regression, plain_ngrams

NEVER = -10.0
"""The score of a class that no training example has, where a training begins with a regression."""
AXES: Mapping[str, tuple[str | int, ...]] = {
    "pooled": ("batch",),
    "unary": ("batch", "length"),
    "binary": ("batch", "length", "length"),
}
"""The dims of what a head reads, but for its channels."""


class Linear(Head):
    """Scores by a linear map, zero where nothing is; their loss is the cross-entropy of the labels that are not -100.

    Attributes:
        reads: the pooled output, or the atoms of a branch.
        drops: whether what is read is dropped out.
        scores: how many there are where no option `classes` says it; of one alone there is no axis.
        meaning: what the scores say.
    """

    reads: ClassVar[Literal["pooled", "unary", "binary"]]
    drops: ClassVar[bool] = False
    scores: ClassVar[int] = 2
    meaning: ClassVar[str]

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.dropout = nn.Dropout(dims.dropout if self.drops else 0.0)
        self.dense = nn.Linear(getattr(dims, self.reads), getattr(options, "classes", self.scores))

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The scores."""
        dims = AXES[self.reads] if self.scores == 1 else (*AXES[self.reads], self.dense.out_features)
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning=self.meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[..., d] -> logits [..., scores]; zero at padding and outside the scope."""
        logits = self.dense(self.dropout(getattr(encoded, self.reads)))
        if self.scores == 1:
            logits = logits.squeeze(-1)
        if self.reads == "unary":
            logits = encoded.scope.zero_unary(logits)
        elif self.reads == "binary":
            logits = encoded.scope.zero_binary(logits)
        return {"logits": logits}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Mean cross-entropy where labels are not -100; zero if none is."""
        return mean_cross_entropy(outputs["logits"], labels)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """The map of what is read."""
        width = getattr(self.options, "classes", self.scores)
        logits = plain_linear(given[self.reads], parameters, "dense", width)
        return {"logits": logits[..., 0] if self.scores == 1 else logits}

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """The cross-entropy, place by place."""
        return plain_cross_entropy(outputs["logits"], labels)


@frozen(kw_only=True)
class ClassesOptions:
    """What is predicted.

    Args:
        classes: the number of classes.
    """

    classes: int = field(default=2, validator=validators.ge(2))


@frozen(kw_only=True)
class ClassificationOptions:
    """What is predicted.

    Args:
        classes: the number of classes.
        problem: `single` for one sequence and `pair` for two (which token_type_ids tell apart), both with one score a
            class; `regression` for one number, with `classes = 1`.
        center: of a regression, what the numbers lie around: what the linear map gives is multiplied by `scale`, and
            this is added.
        scale: of a regression, how far they lie apart. The error is counted in this unit.
        ngrams: scores of n-grams of so many tokens at most are added, as in Wide & Deep (Cheng et al., 2016); 0 for
            none.
        buckets: how many different n-grams there may be; others share scores.
        begin: with what a training on classes begins: `random` weights, or a logistic `regression` on the n-grams if
            there are any, else on the vectors that the linear map reads.
    """

    classes: int = field(default=2, validator=validators.ge(1))
    problem: Literal["single", "pair", "regression"] = field(
        default="single", validator=validators.in_(("single", "pair", "regression"))
    )
    center: float = 0.0
    scale: float = field(default=1.0, validator=validators.gt(0))
    ngrams: int = field(default=0, validator=[validators.ge(0), validators.le(5)])
    buckets: int = field(default=1 << 16, validator=validators.ge(1))
    begin: Literal["random", "regression"] = one_of("random", "regression")


class Classification(Linear):
    """Classes or a number for a whole input: one sequence, or a pair joined by token types."""

    name = "classification"
    needs = frozenset({"pooled"})
    source = "BERT (Devlin et al., 2018), Section 4.1; FOLNet (Chen, 2023), Appendix B"
    Options = ClassificationOptions
    labels = "int64 [b]: the right class; float [b] for a regression"
    reads, drops = "pooled", True
    meaning = "Scores of the classes, or the predicted number."

    @classmethod
    def check(cls, options: ClassificationOptions, dims: Dims, scope: str) -> str | None:
        """A regression has one output, a pair needs two token types, and a choice needs two classes."""
        if options.problem == "regression" and options.classes != 1:
            return f"a regression predicts one number, and classes is {options.classes}; set classes = 1"
        if options.problem != "regression" and (options.center, options.scale) != (0, 1):
            return 'center and scale are of numbers; leave them out, or set problem = "regression"'
        if options.problem != "regression" and options.classes < 2:
            return 'one class leaves nothing to choose; set classes to 2 or more, or problem = "regression"'
        if options.problem == "pair" and dims.token_types < 2:
            return "a pair needs model.input.token_types of 2 or more, to tell its two sequences apart"
        return None

    def __init__(self, options: ClassificationOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        made = options.ngrams > 0
        self.ngrams = NGrams(options.ngrams, options.buckets, options.classes) if made else None

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, p] -> logits [b, classes]; of a regression in the unit of its numbers."""
        logits = super().forward(encoded, tokens)["logits"]
        if self.ngrams is not None:
            logits = logits + self.ngrams(tokens.inputs["input_ids"], tokens.real)
        if self.options.problem == "regression":
            # In mixed precision the map gives less precision than numbers far from zero need.
            logits = logits.to(self.dense.weight.dtype) * self.options.scale + self.options.center
        return {"logits": logits}

    def fit(self, examples: Iterable[Batch]) -> str:
        """Take the scores of a logistic regression, with dropout off; of numbers, and by default, nothing."""
        if self.options.begin == "random" or self.options.problem == "regression":
            return ""
        with torch.no_grad():
            self.dense.weight.zero_()
            if self.ngrams is not None:
                classes, intercepts = self.ngrams.fit(examples)
                what = f"n-grams of up to {self.options.ngrams} tokens"
            else:
                read = [(encoded.pooled, labels, weights) for encoded, _, labels, weights in examples]
                vectors = torch.cat([each for each, *_ in read if each is not None]).cpu().double()
                unit = float(vectors.norm(dim=1).mean().clamp_min(1e-6))
                right = [(labels, weights) for _, labels, weights in read]
                classes, scores, intercepts = logistic_regression((vectors / unit).numpy(), right)
                self.dense.weight[classes] = like(scores / unit, self.dense.weight)
                what = "the vectors of the model as it is"
            self.dense.bias.fill_(NEVER)
            self.dense.bias[classes] = like(intercepts, self.dense.bias)
        return f"a logistic regression on {what}"

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy against labels [b], or the mean squared error against numbers [b] in units of `scale`."""
        logits = at_least_float32(outputs["logits"])
        if self.options.problem != "regression":
            return mean_cross_entropy(logits, labels)
        if len(logits) != labels.numel():
            raise InputError(
                f"labels are {list(labels.shape)} and must be one number for each of {len(logits)} rows"
            )
        return ((logits.squeeze(-1) - labels.flatten().to(logits.dtype)) / self.options.scale).square().mean()

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """The map of what is read, with the scores of n-grams, and of a regression its unit."""
        logits = super().reference(given, scope, parameters, dims)["logits"]
        if self.options.ngrams:
            tables = parameters["ngrams.importance"], parameters["ngrams.scores"]
            logits = logits + plain_ngrams(given["input_ids"], self.options.ngrams, *tables)
        return {"logits": logits * self.options.scale + self.options.center}

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """The cross-entropy, or the mean square of how far numbers are off."""
        if self.options.problem != "regression":
            return super().reference_loss(outputs, labels)
        rows = zip(outputs["logits"], labels, strict=True)
        return sum(((row[0] - number) / self.options.scale) ** 2 for row, number in rows) / len(labels)


class Binary(Linear):
    """Scores of yes against no; their loss is the binary cross-entropy of the labels that are not -100."""

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Mean binary cross-entropy where labels, 1 for yes and 0 for no, are not -100; zero if none is."""
        check_labels(labels, outputs["logits"].shape, 2)
        logits, counts = at_least_float32(outputs["logits"]), labels != IGNORED
        wanted = labels.to(logits.dtype).masked_fill(~counts, 0.0)
        losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        return losses.masked_fill(~counts, 0.0).sum() / counts.sum().clamp_min(1)

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """The binary cross-entropy, place by place."""
        places = zip(np.ravel(outputs["logits"]), np.ravel(labels), strict=True)
        shares = [plain_sigmoid(z if label else -z) for z, label in places if label != IGNORED]
        return float(sum(-np.log(share) for share in shares) / max(1, len(shares)))


class MultiLabel(Binary):
    """The labels that a whole input has, any number of them: a score for each, which competes with none."""

    name = "multilabel"
    needs = frozenset({"pooled"})
    source = "BERT (Devlin et al., 2018), Section 4.1, with a sigmoid for each class"
    Options = ClassesOptions
    labels = "int64 [b, classes]: 1 for a label that the input has, 0 for another; -100 where it is not known"
    reads, drops = "pooled", True
    meaning = "Scores of each label against its absence."


class SentencePair(Linear):
    """Whether the second sentence follows the first (`as = "nsp"`), or whether the two are in order (`as = "sop"`)."""

    name = "pair"
    needs = frozenset({"pooled"})
    source = "FOLNet (Chen, 2023), Appendix A.4; ALBERT (Lan et al., 2019) for SOP"
    labels = "int64 [b]: 0 or 1"
    reads = "pooled"
    meaning = "Scores of: the pair stands as in the text, it does not."


class TokenClassification(Linear):
    """A class for each token, as in tagging."""

    name = "token_classification"
    source = "BERT (Devlin et al., 2018), Section 5.3; FOLNet (Chen, 2023), Appendix A.4"
    Options = ClassesOptions
    labels = "int64 [b, x]: the class of the token; -100 where it does not count"
    reads, drops = "unary", True
    meaning = "Scores of the classes of each token."


@frozen(kw_only=True)
class RelationOptions(ClassesOptions):
    """What is predicted, and from what.

    Args:
        classes: the number of classes.
        hidden: whether a hidden layer with relu, as wide as the relations, stands before the scores.
        facets: into how many groups of channels the relations are divided, of each of which the softmax is read; 0 for
            the relations as they are.
    """

    hidden: bool = False
    facets: int = field(default=0, validator=validators.ge(0))


class Relation(Linear):
    """Classes of each pair of tokens from its relations, such as the arcs of a dependency tree."""

    name = "relation"
    needs = frozenset({"binary"})
    source = "FOLNet (Chen, 2023), Appendix A.4, which proposes losses on the binary atoms"
    Options = RelationOptions
    labels = "int64 [b, x, y]: the class of the pair; -100 where it does not count"
    reads = "binary"
    meaning = "Scores of the classes of each pair of tokens."

    @classmethod
    def check(cls, options: RelationOptions, dims: Dims, scope: str) -> str | None:
        """The channels are divided evenly."""
        if not options.facets or dims.binary % options.facets == 0:
            return None
        return (
            f"{dims.binary} binary channels are not divided by {options.facets} facets; set model.dims.binary"
        )

    def __init__(self, options: RelationOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.hidden = nn.Linear(dims.binary, dims.binary) if options.hidden else None

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, y, d2] -> logits [b, x, y, classes]; zero outside the scope."""
        if self.options.facets and encoded.binary is not None:
            groups = at_least_float32(encoded.binary).unflatten(-1, (self.options.facets, -1))
            encoded = encoded._replace(binary=groups.softmax(-1).flatten(-2).to(encoded.binary.dtype))
        if self.hidden is not None:
            encoded = encoded._replace(binary=self.hidden(encoded.binary).relu())
        return super().forward(encoded, tokens)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """The relations, of each facet the softmax, the hidden layer, and the map."""
        read = np.asarray(given["binary"])
        if self.options.facets:
            groups = read.reshape(*read.shape[:2], self.options.facets, -1)
            read = plain_softmax(groups).reshape(read.shape)
        if self.options.hidden:
            read = plain_relu(plain_linear(read, parameters, "hidden", dims.binary))
        return super().reference({"binary": read}, scope, parameters, dims)


class Swap(Binary):
    """Whether two tokens have changed places: one score for each pair, the same both ways."""

    name = "swap"
    needs = frozenset({"binary"})
    source = "FOLNet (Chen, 2023), Appendix A.4, which proposes it"
    labels = "int64 [b, x, y]: 1 where the two were swapped, else 0; -100 where the pair does not count"
    reads, scores = "binary", 1
    meaning = "Scores of each pair of tokens having changed places."

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, y, d2] -> logits [b, x, y], symmetric; zero outside the scope."""
        scores = self.dense(encoded.binary).squeeze(-1)
        return {"logits": encoded.scope.zero_binary(scores + scores.transpose(1, 2))}

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """The scores of both directions, added up."""
        scores = plain_linear(given["binary"], parameters, "dense", 1)[..., 0]
        return {"logits": scores + scores.T}


class Span(Linear):
    """Where a span of text starts and where it ends, such as the answer to a question.

    That a text holds no span is itself a place: the first token's, by convention (BERT, Section 4.3).
    """

    name = "span"
    source = "BERT (Devlin et al., 2018), Sections 4.2 and 4.3; FOLNet (Chen, 2023), Appendix B"
    labels = "int64 [b, x, 2]: 1 where the span starts and where it ends, 0 where else it may, -100 elsewhere"
    reads = "unary"
    meaning = "Scores of each token as the first of the span and as its last."

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """-ln of the right places' share of the softmax over those where a span may be, in float32.

        Where several places are right, their probabilities add up. The mean is over the starts and ends that have a
        right place; zero if none has.
        """
        check_labels(labels, outputs["logits"].shape, 2)
        logits, allowed, right = at_least_float32(outputs["logits"]), labels != IGNORED, labels == 1
        low = torch.finfo(logits.dtype).min
        counts = right.any(1)  # [b, 2]
        wanted = logits.masked_fill(~right, low).logsumexp(1)
        losses = logits.masked_fill(~allowed, low).logsumexp(1) - wanted
        return losses.masked_fill(~counts, 0.0).sum() / counts.sum().clamp_min(1)

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """Of each text and each end: the share of the right places among those where it may be."""
        losses = []
        for scores, marks in zip(outputs["logits"], labels, strict=True):
            for end in (0, 1):
                places = [x for x, mark in enumerate(marks) if mark[end] != IGNORED]
                powers = {x: np.exp(scores[x][end]) for x in places}
                if right := [x for x in places if marks[x][end] == 1]:
                    losses.append(-np.log(sum(powers[x] for x in right) / sum(powers.values())))
        return float(sum(losses) / max(1, len(losses)))


@frozen(kw_only=True)
class MultipleChoiceOptions:
    """What is chosen from.

    Args:
        choices: how many rows of a batch, one after the other, are the choices of one question.
    """

    choices: int = field(default=2, validator=validators.ge(2))


class MultipleChoice(Linear):
    """Which of several texts is the right one: a score for each row; the rows of one question compete."""

    name = "multiple_choice"
    needs = frozenset({"pooled"})
    source = "GPT (Radford et al., 2018), Section 3.3; BERT (Devlin et al., 2018), Section 4.4"
    Options = MultipleChoiceOptions
    labels = "int64 [questions]: the right choice; or float [b]: each row's share of its question's answer"
    reads, drops, scores = "pooled", True, 1
    meaning = "How well each row answers its question."

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy over the choices of each question.

        Raises:
            InputError: the rows are not a whole number of questions, or the labels do not match them.
        """
        logits, choices = at_least_float32(outputs["logits"]), self.options.choices
        if len(logits) % choices:
            raise InputError(
                f"a batch of {len(logits)} rows is not a whole number of questions with {choices} choices each; give "
                "each question all its rows, one after the other, or set the head's option choices"
            )
        grouped = logits.view(-1, choices)
        if labels.is_floating_point() and labels.shape == logits.shape:
            return F.cross_entropy(grouped, labels.to(grouped.dtype).view_as(grouped))
        if labels.shape != grouped.shape[:1]:
            raise InputError(
                f"labels of the shape {list(labels.shape)} are not those of {len(grouped)} questions with "
                f"{choices} choices: give int64 [{len(grouped)}], or float [{len(logits)}]"
            )
        return mean_cross_entropy(grouped, labels)

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """Of each question: the cross-entropy of its rows."""
        count, losses = self.options.choices, []
        for i in range(len(outputs["logits"]) // count):
            shares = plain_softmax(outputs["logits"][i * count : (i + 1) * count])
            if len(labels) == len(outputs["logits"]):
                wanted = labels[i * count : (i + 1) * count]
            else:
                wanted = [float(choice == labels[i]) for choice in range(count)]
            losses.append(-sum(w * np.log(p) for w, p in zip(wanted, shares, strict=True)))
        return float(sum(losses) / len(losses))
