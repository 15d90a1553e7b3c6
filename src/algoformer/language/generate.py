"""Continue prefixes with greedy or beam search and a KV cache."""

from __future__ import annotations

from jaxtyping import Bool, Int
from torch import Tensor

from algoformer.language.beam import beam_search, check_beam
from algoformer.language.cache import Policy
from algoformer.language.decode import CachedDecoder
from algoformer.language.greedy import Generation, check_search, greedy_search
from algoformer.language.token_model import TokenModel
from algoformer.model.stopping import StoppingRule


def generate(
    model: TokenModel,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    *,
    end: int,
    most: int,
    beam: int = 1,
    length_penalty: int | float = 1.0,
    nbest: int = 1,
    steps: int | None = None,
    policy: Policy = "full",
    early_exit: StoppingRule | None = None,
    captured: bool | None = None,
) -> Generation:
    """Continue prefixes with a KV cache, by greedy search or beam search.

    Args:
        model: the model; call `model.eval()` first if it has dropout.
        input_ids: as for `beam_search`, and so are `attention_mask`, `end`, `most`, `beam`,
            `length_penalty` and `nbest`.
        steps: as for `CachedDecoder`, and so are `policy`, `early_exit` and `captured`.

    >>> import torch
    >>> from algoformer import programs
    >>> model = TokenModel(programs.looped(heads=2, steps=3), vocabulary=9, context=32, width=8).eval()
    >>> generate(model, torch.tensor([[1, 2], [3, 4]]), end=0, most=5, beam=4, nbest=2).tokens.shape
    torch.Size([2, 2, 5])
    """
    check_search(model, end=end, most=most, length_penalty=length_penalty)
    check_beam(model, beam=beam, nbest=nbest)
    decoder = CachedDecoder(
        model,
        batch=input_ids.shape[0],
        length=input_ids.shape[1] + most - 1,  # the last token is never read
        steps=steps,
        policy=policy,
        early_exit=early_exit,
        captured=captured,
    )
    if beam == 1:
        return greedy_search(
            decoder, input_ids, attention_mask, end=end, most=most, length_penalty=length_penalty
        )
    return beam_search(
        decoder,
        input_ids,
        attention_mask,
        end=end,
        most=most,
        beam=beam,
        length_penalty=length_penalty,
        nbest=nbest,
    )
