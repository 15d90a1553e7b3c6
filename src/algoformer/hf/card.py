"""Model cards of the Hugging Face hub, with the loss of a looped model at several depths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.extras import require
from algoformer.hf.model import AlgoformerForCausalLM


@torch.no_grad()
def depth_curve(
    model: AlgoformerForCausalLM,
    tokens: Int[Tensor, "sequence token"],
    depths: Iterable[int],
    batch: int = 16,
) -> dict[int, float]:
    """Return the mean cross entropy of the next token, in nats, for each number of steps.

    Args:
        model: what `to_hf` returned.
        tokens: held-out sequences without padding.
        depths: numbers of steps of the traced loop.
        batch: sequences that run at once.
    """
    training = model.training
    model.eval()
    found = {}
    for steps in depths:
        losses = [
            float(model(rows, labels=rows, steps=steps, use_cache=False).loss) * len(rows)
            for rows in tokens.to(model.device).split(batch)
        ]
        found[steps] = sum(losses) / len(tokens)
    model.train(training)
    return found


def model_card(
    model: AlgoformerForCausalLM,
    *,
    curve: Mapping[int, float],
    measured_on: str,
    about: str = "",
    **data: Any,
) -> Any:
    """Return a card for the hub: the program, its size and its loss by depth.

    `card.save("folder/README.md")` puts it beside the weights, `card.push_to_hub(repository)` uploads it.

    Args:
        model: what `to_hf` returned.
        curve: the loss for each number of steps, as `depth_curve` returns it.
        measured_on: the text that the losses were measured on, in words.
        about: a paragraph about the model: what it is for and what it learned from.
        data: further fields of `huggingface_hub.ModelCardData`, such as `license`, `language`, `base_model`.
    """
    if not isinstance(model, AlgoformerForCausalLM):
        raise ValueError(
            f"model_card describes language models, got {type(model).__name__}; "
            "write the card of a classifier with huggingface_hub.ModelCard"
        )
    hub = require("huggingface_hub", extra="hf")
    known = {"library_name": "algoformer", "pipeline_tag": "text-generation", "tags": ["looped-transformer"]}
    header = hub.ModelCardData(**{**known, **data})
    trained = model.config.run_steps()
    rows = [
        f"| {steps}{' (default)' if steps == trained else ''} | {loss:.4f} |"
        for steps, loss in sorted(curve.items())
    ]
    size = sum(weight.numel() for weight in model.parameters())
    text = f"""---
{header.to_yaml()}
---

{about or "A language model with a loop."}

## Program

```text
{model.model.program}
```

{size:,} parameters, width {model.config.hidden_size}, context {model.config.max_position_embeddings},
vocabulary {model.config.vocab_size}.

## Loss by depth

The number of steps is an argument of every call: `model(..., steps=8)`, `model.generate(..., steps=8)`.

| steps | cross entropy of a token, nats |
|---|---|
{chr(10).join(rows)}

Measured on {measured_on}.

## Use

```python
import algoformer.hf
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("this repository")
```
"""
    return hub.ModelCard(text)
