"""The models that predict: one for each task that `transformers` has an `AutoModelFor...` for and Peirce a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from peirce.errors import InputError, SpecError
from peirce.parts import IGNORED
from peirce.spec import Spec, to_plain
from torch import Tensor
from transformers.modeling_outputs import (
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

from peirce_hf.base import PeircePreTrainedModel, tuple_if_asked
from peirce_hf.config import PeirceConfig
from peirce_hf.outputs import PeirceForPreTrainingOutput, PeirceModelOutput

if TYPE_CHECKING:
    from peirce.registry import Registry


class PeirceModel(PeircePreTrainedModel):
    """The atoms, without a head."""

    @tuple_if_asked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **inputs: Any,
    ) -> PeirceModelOutput:
        """The final atoms and the pooled output; inputs as `PeircePreTrainedModel.run` says."""
        outputs = self.run(input_ids, attention_mask, token_type_ids, inputs_embeds, inputs)
        return PeirceModelOutput(outputs["unary"], outputs.get("pooled"), outputs.get("binary"))


class PeirceForPreTraining(PeircePreTrainedModel):
    """Every head of the spec, as for pretraining with several losses."""

    @classmethod
    def keeps_heads(cls) -> bool:
        """It has every head."""
        return True

    @classmethod
    def heads_of(cls, config: PeirceConfig, spec: Spec, registry: Registry) -> list[dict[str, Any]]:
        """Those of the spec."""
        return [to_plain(head) for head in spec.heads]

    @tuple_if_asked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | Mapping[str, Tensor] | None = None,
        next_sentence_label: Tensor | None = None,
        **inputs: Any,
    ) -> PeirceForPreTrainingOutput:
        """The atoms, and what every head predicts.

        Args:
            input_ids: as the other inputs, see `PeircePreTrainedModel.run`.
            attention_mask: see there.
            token_type_ids: see there.
            inputs_embeds: see there.
            labels: for the head of use `mlm`, int64 [b, x], -100 where none counts; or labels by the heads' prefixes.
            next_sentence_label: for the head of use `pair`, int64 [b].
            inputs: further inputs, see there.

        Raises:
            InputError: there are labels for a head that the model does not have.
        """
        outputs = self.run(input_ids, attention_mask, token_type_ids, inputs_embeds, inputs)
        wanted = dict(labels) if isinstance(labels, Mapping) else {}
        if isinstance(labels, Tensor):
            wanted[self._prefix_of("mlm", "labels")] = labels
        if next_sentence_label is not None:
            wanted[self._prefix_of("pair", "next_sentence_label")] = next_sentence_label.flatten()
        losses = [self.peirce.loss(prefix, outputs, value) for prefix, value in wanted.items()]
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


class PeirceForMaskedLM(PeircePreTrainedModel):
    """Which token stood where a mask stands; the head `mlm`."""

    uses = ("mlm",)

    @tuple_if_asked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> MaskedLMOutput:
        """Logits [b, x, v], and the loss against labels [b, x], -100 where none counts."""
        outputs = self.run(input_ids, attention_mask, token_type_ids, inputs_embeds, inputs)
        loss = None if labels is None else self.peirce.loss(self.prefix, outputs, labels)
        return MaskedLMOutput(loss=loss, logits=outputs[f"{self.prefix}_logits"])


class PeirceForSequenceClassification(PeircePreTrainedModel):
    """A class, or a number, for a whole input; the head `classification`.

    A configuration with `num_labels = 1`, or the problem type `regression`, predicts a number.
    """

    uses = ("classification",)

    @classmethod
    def options_of(cls, config: PeirceConfig, table: Mapping[str, Any]) -> dict[str, Any]:
        """The number of classes and the kind of problem.

        Raises:
            SpecError: several classes may hold at once, which the head has no loss for.
        """
        if config.problem_type == "multi_label_classification":
            raise SpecError(
                "problem_type is multi_label_classification, and the head 'classification' chooses one class; train "
                "one model for each label, or register a head with a loss of its own"
            )
        regression = config.problem_type == "regression" or (
            config.problem_type is None and config.num_labels == 1
        )
        options: dict[str, Any] = {"classes": config.num_labels}
        if regression or table.get("problem") == "regression":
            options["problem"] = "regression" if regression else "single"
        return options

    @classmethod
    def settings_of(cls, options: Any) -> dict[str, Any]:
        """The number of labels, and the problem type."""
        kind = "regression" if options.problem == "regression" else "single_label_classification"
        return {"num_labels": options.classes, "problem_type": kind}

    @tuple_if_asked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> SequenceClassifierOutput:
        """Logits [b, classes], and the loss against labels [b]."""
        outputs = self.run(input_ids, attention_mask, token_type_ids, inputs_embeds, inputs)
        loss = None if labels is None else self.peirce.loss(self.prefix, outputs, labels.flatten())
        return SequenceClassifierOutput(loss=loss, logits=outputs[f"{self.prefix}_logits"])


class PeirceForTokenClassification(PeircePreTrainedModel):
    """A class for each token; the head `token_classification`."""

    uses = ("token_classification",)

    @classmethod
    def options_of(cls, config: PeirceConfig, table: Mapping[str, Any]) -> dict[str, Any]:
        """The number of classes."""
        return {"classes": config.num_labels}

    @classmethod
    def settings_of(cls, options: Any) -> dict[str, Any]:
        """The number of labels."""
        return {"num_labels": options.classes}

    @tuple_if_asked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> TokenClassifierOutput:
        """Logits [b, x, classes], and the loss against labels [b, x], -100 where none counts."""
        outputs = self.run(input_ids, attention_mask, token_type_ids, inputs_embeds, inputs)
        loss = None if labels is None else self.peirce.loss(self.prefix, outputs, labels)
        return TokenClassifierOutput(loss=loss, logits=outputs[f"{self.prefix}_logits"])


class PeirceForQuestionAnswering(PeircePreTrainedModel):
    """Where in the input the answer starts and ends; the head `span`."""

    uses = ("span",)

    @tuple_if_asked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        **inputs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Scores [b, x] of each token as the first and as the last of the answer.

        Args:
            input_ids: as the other inputs, see `PeircePreTrainedModel.run`.
            attention_mask: see there.
            token_type_ids: see there.
            inputs_embeds: see there.
            start_positions: int64 [b], the answer's first token; one outside the input does not count.
            end_positions: int64 [b], its last token.
            inputs: further inputs, see there.
        """
        outputs = self.run(input_ids, attention_mask, token_type_ids, inputs_embeds, inputs)
        logits = outputs[f"{self.prefix}_logits"]
        loss = None
        if start_positions is not None and end_positions is not None:
            places = torch.stack([start_positions.flatten(), end_positions.flatten()], -1)
            index = torch.arange(logits.shape[1], device=logits.device)
            labels = (index[None, :, None] == places[:, None, :]).long()
            if attention_mask is not None:
                labels = labels.masked_fill((attention_mask == 0).unsqueeze(-1), IGNORED)
            loss = self.peirce.loss(self.prefix, outputs, labels)
        start, end = logits.unbind(-1)
        return QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end)


class PeirceForMultipleChoice(PeircePreTrainedModel):
    """Which of several texts is the right one; the head `multiple_choice`."""

    uses = ("multiple_choice",)

    @classmethod
    def options_of(cls, config: PeirceConfig, table: Mapping[str, Any]) -> dict[str, Any]:
        """The number of choices."""
        return {} if config.num_choices is None else {"choices": config.num_choices}

    @classmethod
    def settings_of(cls, options: Any) -> dict[str, Any]:
        """The number of choices."""
        return {"num_choices": options.choices}

    @tuple_if_asked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> MultipleChoiceModelOutput:
        """Logits [b, choices] of inputs [b, choices, x], and the loss against labels [b].

        Raises:
            InputError: the inputs have no axis of choices, or labels come with another number of choices than the
                configuration's `num_choices`.
        """
        if input_ids is None or input_ids.dim() != 3:
            shape = None if input_ids is None else list(input_ids.shape)
            raise InputError(f"input_ids must be [batch, choices, length], and is {shape}")
        batch, choices = input_ids.shape[:2]
        outputs = self.run(
            _rows(input_ids),
            _rows(attention_mask),
            _rows(token_type_ids),
            inputs_embeds,
            {name: _rows(value) for name, value in inputs.items()},
        )
        loss = None
        if labels is not None:
            expected = self.peirce.plan.heads[0].options.choices
            if choices != expected:
                raise InputError(
                    f"these questions have {choices} choices, and the model's head counts {expected}; load it with "
                    f"num_choices={choices}"
                )
            loss = self.peirce.loss(self.prefix, outputs, labels.flatten())
        logits = outputs[f"{self.prefix}_logits"].view(batch, choices)
        return MultipleChoiceModelOutput(loss=loss, logits=logits)


def _rows(value: Any) -> Any:
    """[b, choices, ...] -> [b * choices, ...]."""
    return value.flatten(0, 1) if isinstance(value, Tensor) else value
