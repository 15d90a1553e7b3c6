"""lm-evaluation-harness runs programs by its own class for models of `transformers`, without a plugin."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
pytest.importorskip("lm_eval", reason="pip install algoformer[harness]")

from algoformer.hf import to_hf, to_hf_tokenizer
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import Tokenizer
from algoformer.model import presets
from algoformer.trace import Unroll

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the packages that the harness imports
PAIRS = [("the dog", " sees the cat"), ("the cat sees", " the dog"), ("a", " b c")]


@pytest.mark.parametrize("steps", [3, 6])
def test_log_likelihoods_are_sums_over_the_scores_of_the_token_model(steps: int, tmp_path: Path) -> None:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    tokenizer = Tokenizer.train(["the dog sees the cat", "the cat sees the dog"] * 4, vocabulary=300)
    torch.manual_seed(0)
    model = TokenModel(presets.algoformer(heads=2, steps=3), vocabulary=300, context=64, width=16).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    to_hf(model).save_pretrained(tmp_path)
    to_hf_tokenizer(tokenizer, model).save_pretrained(tmp_path)
    harness = HFLM(pretrained=str(tmp_path), steps=steps, batch_size=2, device="cpu")
    asked = [Instance("loglikelihood", {}, pair, number) for number, pair in enumerate(PAIRS)]
    for (start, end), (found, _) in zip(PAIRS, harness.loglikelihood(asked, disable_tqdm=True), strict=True):
        tokens = torch.tensor(tokenizer.encode(start + end))
        scores = model(tokens[None], Unroll(steps=steps, window=1))[0, 0].detach().log_softmax(dim=-1)
        told = scores[:-1].gather(1, tokens[1:, None])[len(tokenizer.encode(start)) - 1 :]
        assert found == pytest.approx(float(told.sum()), abs=1e-4)
