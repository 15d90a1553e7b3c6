"""The configuration of a program as a model of `transformers`."""

from typing import Any

from algoformer.common.plain_data import check_count
from algoformer.common.terminal import short
from algoformer.hf.installed import transformers
from algoformer.language.cache import slots_of
from algoformer.model.program import Program, default_steps, to_data
from algoformer.model.read_program import from_data


class AlgoformerConfig(transformers.PreTrainedConfig):
    """A program with the sizes of a language model, as `config.json` holds them.

    Args:
        program: the program as `to_data` writes it.
        vocab_size: number of different tokens.
        hidden_size: width of the residual stream.
        max_position_embeddings: the most tokens a sequence may have.
        steps: how often the traced loop runs; None means as the program says.
        tie_word_embeddings: whether the embedding is also the map to scores.
        dropout: dropout rate of the embeddings and of what each layer adds to the stream.
        attention_dropout: dropout rate of the attention weights.
        word_dropout: probability of zeroing a token's embedding while training.
        use_cache: whether a forward pass returns a KV cache, outside of training.

    >>> from algoformer import programs
    >>> AlgoformerConfig.of(programs.algoformer(steps=20), vocab_size=50, hidden_size=64).num_hidden_layers
    22
    """

    __no_type_check__ = True  # `transformers` gives its configurations a constructor that takes any keyword
    model_type = "algoformer"
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012

    program: list[dict[str, Any]] | None = None
    vocab_size: int = 256
    hidden_size: int = 64
    max_position_embeddings: int = 128
    steps: int | None = None
    tie_word_embeddings: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0
    word_dropout: float = 0.0
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    @classmethod
    def of(cls, program: Program, **options: Any) -> "AlgoformerConfig":
        """Return the configuration of a program."""
        return cls(program=to_data(program), **options)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Return what `config.json` holds; `transformers` itself would set any attribute that it names."""
        for name in config_dict:
            if name.startswith("__"):
                raise ValueError(f"config.json names {short(name)}, which is not a setting; remove it")
        return super().from_dict(config_dict, **kwargs)

    def as_program(self) -> Program:
        """Return the program; refuse one that cannot be read, and impossible sizes, rates or flags."""
        for name in ("vocab_size", "hidden_size", "max_position_embeddings", "steps"):
            if name != "steps" or self.steps is not None:
                check_count(name, getattr(self, name), most=2**31 - 1)
        for name in ("dropout", "attention_dropout", "word_dropout"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value < 1:
                raise ValueError(f"{name} must be a number from 0 to below 1, got {short(value)}")
        for name in ("tie_word_embeddings", "use_cache"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be a boolean, got {short(getattr(self, name))}")
        return from_data(self.program)

    def run_steps(self) -> int:
        """Return how often the traced loop runs: as configured, or as the program says."""
        return default_steps(self.as_program()) if self.steps is None else self.steps

    @property
    def num_hidden_layers(self) -> int:
        """The number of layers that run in one pass, which is the number of entries of a KV cache.

        A program without layers has one entry, which counts the tokens.
        """
        return 0 if self.program is None else max(len(slots_of(self.as_program(), steps=self.run_steps())), 1)

    @num_hidden_layers.setter
    def num_hidden_layers(self, count: int) -> None:
        raise ValueError(
            f"num_hidden_layers follows from the program, got {short(count)}; give steps, or another program"
        )
