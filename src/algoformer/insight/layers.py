"""The layers of a transformer without a loop as the passes of a solver."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from algoformer.evaluation import evaluation_prompts
from algoformer.evaluation.solvers import full_precision, given_to
from algoformer.insight.probes import ridge, states_at_questions
from algoformer.model import AlgoFormer
from algoformer.model.address import layer_addresses
from algoformer.model.program import has_loop
from algoformer.prompt import Prompt
from algoformer.tasks import Task
from algoformer.trace import Trace, Unroll


class LayerReadouts(nn.Module):
    """A solver whose pass k answers from the state after layer k, by a linear read-out of that layer.

    The model's own read-out was trained for its last layer alone. Here each layer has one of its own, so
    the answers show what can be read off there, not what the model would say.
    """

    readouts: Tensor

    def __init__(self, model: AlgoFormer, addresses: tuple[str, ...], readouts: Tensor) -> None:
        super().__init__()
        self.model, self.addresses = model, addresses
        self.register_buffer("readouts", readouts)  # (layer, width + 1, out)

    @property
    def layers(self) -> int:
        """The number of layers, which is the number of passes that can be asked for."""
        return len(self.addresses)

    def forward(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the answers after each layer."""
        if unroll.steps > self.layers:
            raise ValueError(f"steps must be at most {self.layers}, the number of layers, got {unroll.steps}")
        chosen = slice(unroll.first_step - 1, unroll.steps)
        states = states_at_questions(self.model, prompt, self.addresses[chosen])
        answers = torch.einsum("lbpw,lwo->lbpo", states, self.readouts[chosen])
        return Trace(predictions=answers, first_step=unroll.first_step)


def layers_as_passes(model: AlgoFormer, task: Task, *, prompts: int = 512, seed: int = 1) -> LayerReadouts:
    """Fit a linear read-out to each layer of a transformer without a loop.

    Args:
        model: the transformer.
        task: where the prompts come from that read-outs are fitted to.
        prompts: their number; questions after the first half of the samples are used.
        seed: of these prompts; identification should use another one.

    Raises:
        ValueError: the model has a loop, or there are too few prompts for its width.
    """
    if any(has_loop(part) for part in model.program):
        raise ValueError("this model has a loop, whose iterations are its passes; identify the model itself")
    addresses = tuple(address for address, _ in layer_addresses(model.program))
    prompt = given_to(model, evaluation_prompts(task, count=prompts, seed=seed))
    late = prompt.points // 2
    if prompts * (prompt.points - late) < 4 * model.width:
        numbers = model.width + 1
        raise ValueError(f"prompts={prompts} are too few to fit {numbers} numbers a layer; ask for more")
    target = (prompt.targets if prompt.clean is None else prompt.clean)[:, late:].flatten(0, 1).double()
    with full_precision(model, torch.device("cpu")), torch.no_grad():
        states = states_at_questions(model, prompt, addresses, first=late).flatten(1, 2).double()
    return LayerReadouts(model, addresses, ridge(states, target).to(prompt.rows.dtype)).eval()
