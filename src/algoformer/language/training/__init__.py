"""Training of models of text: the experiment, its tokens, the step, validation, the run."""

from algoformer.language.training.experiment import TextExperiment as TextExperiment
from algoformer.language.training.presets import PRESETS as PRESETS
from algoformer.language.training.presets import text_preset as text_preset
from algoformer.language.training.text import prepare_text as prepare_text
from algoformer.language.training.trainer import TextRun as TextRun
from algoformer.language.training.trainer import load_text_experiment as load_text_experiment
from algoformer.language.training.trainer import train_text as train_text
