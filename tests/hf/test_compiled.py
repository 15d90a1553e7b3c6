"""`generate` of `transformers` compiles the step of one token."""

import subprocess
import sys

import pytest

pytest.importorskip("transformers")

CODE = """
import torch, transformers
from algoformer.hf import to_hf
from algoformer.language.token_model import TokenModel
from algoformer.model import Layers, Loop, Parallel, Program, presets

PROGRAMS = {
    "standard": presets.standard(2, heads=2),
    "algoformer": presets.algoformer(heads=2, steps=3),
    "nested": presets.nested(heads=2, steps=2, inner_steps=2),
    "parallel": Program(Parallel(Loop(Layers(1, heads=2), steps=3), Layers(1, heads=2))),
    "no attention": Program(Loop(Layers(0), steps=3)),
}
ids = torch.randint(3, 32, (3, 8), generator=torch.Generator().manual_seed(1))
mask = torch.arange(8) >= torch.tensor([[3], [0], [0]])
options = {"attention_mask": mask.long(), "max_new_tokens": 5, "do_sample": False, "eos_token_id": None}
config = transformers.CompileConfig(backend="eager", mode=None, fullgraph=True)
config._compile_all_devices = True  # by itself it compiles on accelerators only
for name, program in PROGRAMS.items():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = to_hf(TokenModel(program, vocabulary=32, context=40, width=16).eval())
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    plain = model.generate(ids, **options)
    found = model.generate(ids, **options, cache_implementation="static", compile_config=config)
    print(name, hasattr(model, "_compiled_call"), torch.equal(found, plain))
"""


def test_a_step_with_a_static_cache_is_one_graph_with_the_same_tokens() -> None:
    # in a process of its own: checks of types at run time cannot be compiled
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]
    names = ("standard", "algoformer", "nested", "parallel", "no attention")
    assert done.stdout.splitlines() == [f"{name} True True" for name in names]
