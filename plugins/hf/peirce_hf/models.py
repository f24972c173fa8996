"""The models that predict: one for each task that `transformers` has an `AutoModelFor...` for and Peirce a head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers.modeling_outputs import (
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils.generic import ModelOutput

from peirce.errors import InputError, SpecError
from peirce.parts import IGNORED
from peirce_hf.base import PeircePreTrainedModel, with_tuple_output
from peirce_hf.config import PeirceConfig


@dataclass
class PeirceModelOutput(ModelOutput):
    """The final atoms.

    Args:
        last_hidden_state: the unary atoms [b, x, d1].
        pooler_output: one vector for the whole input [b, d1], of a model with a pooler.
        binary: the binary atoms [b, x, y, d2], of a model that keeps them.
    """

    last_hidden_state: Tensor | None = None
    pooler_output: Tensor | None = None
    binary: Tensor | None = None


@dataclass
class PeirceForPreTrainingOutput(ModelOutput):
    """The final atoms, as in `PeirceModelOutput`, and the predictions of every head.

    Args:
        loss: the sum of the losses of the heads with labels, a scalar.
        predictions: the heads' outputs, by the names that the Peirce model has for them.
    """

    loss: Tensor | None = None
    predictions: dict[str, Tensor] | None = None
    last_hidden_state: Tensor | None = None
    pooler_output: Tensor | None = None
    binary: Tensor | None = None


class PeirceModel(PeircePreTrainedModel):
    """The atoms, without a head."""

    @with_tuple_output
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **inputs: Any,
    ) -> PeirceModelOutput:
        """The final atoms and the pooled output; inputs as `PeircePreTrainedModel.inputs_of` takes them."""
        outputs = self.run(input_ids, attention_mask, token_type_ids, **inputs)
        return PeirceModelOutput(outputs["unary"], outputs.get("pooled"), outputs.get("binary"))


class PeirceForPreTraining(PeircePreTrainedModel):
    """Every head of the spec, as for pretraining with several losses."""

    every_head = True

    @with_tuple_output
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | Mapping[str, Tensor] | None = None,
        next_sentence_label: Tensor | None = None,
        **inputs: Any,
    ) -> PeirceForPreTrainingOutput:
        """The atoms, and what every head predicts; inputs as `PeircePreTrainedModel.inputs_of` takes them.

        Args:
            labels: for the head of use `mlm`, int64 [b, x], -100 where none counts; or labels by the heads' prefixes.
            next_sentence_label: for the head of use `pair`, int64 [b].

        Raises:
            InputError: there are labels for a head that the model does not have.
        """
        outputs = self.run(input_ids, attention_mask, token_type_ids, **inputs)
        wanted = dict(labels) if isinstance(labels, Mapping) else {}
        if isinstance(labels, Tensor):
            wanted[self._prefix_of("mlm", "labels")] = labels
        if next_sentence_label is not None:
            wanted[self._prefix_of("pair", "next_sentence_label")] = next_sentence_label.flatten()
        losses = [self.loss_of(prefix, outputs, value) for prefix, value in wanted.items()]
        atoms = {name: outputs.pop(name) for name in ("unary", "pooled", "binary") if name in outputs}
        return PeirceForPreTrainingOutput(
            loss=torch.stack(losses).sum() if losses else None,
            predictions=outputs,
            last_hidden_state=atoms["unary"],
            pooler_output=atoms.get("pooled"),
            binary=atoms.get("binary"),
        )

    def _prefix_of(self, use: str, argument: str) -> str:
        """The prefix of the first head of a kind, for which an argument has labels."""
        for head in self.peirce.spec.heads:
            if head.use == use:
                return head.as_
        raise InputError(
            f"{argument} are for the head {use!r}, which the model does not have; it has "
            f"{', '.join(head.as_ for head in self.peirce.spec.heads) or 'no heads'}: give labels as a table by these "
            "names"
        )


class PeirceWithLabels(PeircePreTrainedModel):
    """One head, whose logits are compared with labels.

    Attributes:
        output: what `transformers` gives for the task.
        one_label: whether there is one label for each input, and not one for each token.
    """

    output: ClassVar[type[Any]]
    one_label: ClassVar[bool] = False

    @with_tuple_output
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> Any:
        """Logits [b, classes], or [b, x, classes] of each token; and the loss against labels [b] or [b, x].

        Inputs are as `PeircePreTrainedModel.inputs_of` takes them. Labels are int64, -100 where none counts, or float32
        where a number is predicted.
        """
        outputs = self.run(input_ids, attention_mask, token_type_ids, **inputs)
        if labels is not None:
            labels = labels.flatten() if self.one_label else labels
        return self.output(
            loss=None if labels is None else self.loss_of(self.prefix, outputs, labels),
            logits=outputs[f"{self.prefix}_logits"],
        )


class PeirceForMaskedLM(PeirceWithLabels):
    """Which token stood where a mask stands; the head `mlm`."""

    uses, output = ("mlm",), MaskedLMOutput


class PeirceForTokenClassification(PeirceWithLabels):
    """A class for each token; the head `token_classification`."""

    uses, output = ("token_classification",), TokenClassifierOutput
    configured = (("classes", "num_labels"),)


class PeirceForSequenceClassification(PeirceWithLabels):
    """A class, or a number, for a whole input; the head `classification`.

    A configuration with `num_labels = 1`, or the problem type `regression`, predicts a number.
    """

    uses, output, one_label = ("classification",), SequenceClassifierOutput, True
    configured = (("classes", "num_labels"),)

    @classmethod
    def options_of(cls, config: PeirceConfig, table: Mapping[str, Any]) -> dict[str, Any]:
        """The number of classes and the kind of problem.

        Raises:
            SpecError: several classes may hold at once, which the head has no loss for.
        """
        if config.problem_type == "multi_label_classification":
            raise SpecError(
                "problem_type is multi_label_classification, but the head 'classification' chooses one class; train "
                "one model for each label, or register a head with a loss of its own"
            )
        options = super().options_of(config, table)
        regression = (config.problem_type or ("regression" if config.num_labels == 1 else "")) == "regression"
        if regression or table.get("problem") == "regression":
            options["problem"] = "regression" if regression else "single"
        return options

    @classmethod
    def settings_of(cls, options: Any) -> dict[str, Any]:
        """The number of labels, and the problem type."""
        kind = "regression" if options.problem == "regression" else "single_label_classification"
        return {**super().settings_of(options), "problem_type": kind}


class PeirceForMultipleChoice(PeirceWithLabels):
    """Which of several texts is the right one; the head `multiple_choice`."""

    uses, output, one_label = ("multiple_choice",), MultipleChoiceModelOutput, True
    configured = (("choices", "num_choices"),)

    @with_tuple_output
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> Any:
        """Logits [b, choices] of inputs [b, choices, x], and the loss against labels [b].

        Raises:
            InputError: the inputs have no axis of choices, or labels come with another number of choices than the
                configuration's `num_choices`.
        """
        if input_ids is None or input_ids.dim() != 3:
            shape = None if input_ids is None else list(input_ids.shape)
            raise InputError(f"input_ids must be [batch, choices, length], and is {shape}")
        batch, choices = input_ids.shape[:2]
        expected = self.peirce.plan.heads[0].options.choices
        if labels is not None and choices != expected:
            raise InputError(
                f"these questions have {choices} choices, and the model's head counts {expected}; load it with "
                f"num_choices={choices}"
            )
        given = {**inputs, "input_ids": input_ids, "attention_mask": attention_mask}
        given["token_type_ids"] = token_type_ids
        rows = {name: t.flatten(0, 1) if isinstance(t, Tensor) else t for name, t in given.items()}
        found = super().forward(**rows, labels=labels, return_dict=True)
        found.logits = found.logits.view(batch, choices)
        return found


class PeirceForQuestionAnswering(PeircePreTrainedModel):
    """Where in the input the answer starts and ends; the head `span`."""

    uses = ("span",)

    @with_tuple_output
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        **inputs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Scores [b, x] of each token as the first and as the last of the answer; inputs as `inputs_of` takes them.

        Args:
            start_positions: int64 [b], the answer's first token; one outside the input does not count.
            end_positions: int64 [b], its last token.
        """
        outputs = self.run(input_ids, attention_mask, token_type_ids, **inputs)
        logits = outputs[f"{self.prefix}_logits"]
        loss = None
        if start_positions is not None and end_positions is not None:
            places = torch.stack([start_positions.flatten(), end_positions.flatten()], -1)
            index = torch.arange(logits.shape[1], device=logits.device)
            labels = (index[None, :, None] == places[:, None, :]).long()
            if attention_mask is not None:
                labels = labels.masked_fill((attention_mask == 0).unsqueeze(-1), IGNORED)
            loss = self.loss_of(self.prefix, outputs, labels)
        start, end = logits.unbind(-1)
        return QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end)
