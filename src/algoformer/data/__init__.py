"""Training data: prompts of a task, parallel text, labelled text, plain text."""

from functools import partial
from typing import TYPE_CHECKING

from algoformer.common.lazy import lazy_attribute, lazy_dir

if TYPE_CHECKING:
    from algoformer.data.labelled import LabelledData as LabelledData
    from algoformer.data.prompts import PromptData as PromptData
    from algoformer.data.protocol import Batches as Batches
    from algoformer.data.protocol import Data as Data
    from algoformer.data.protocol import Loss as Loss
    from algoformer.data.protocol import Share as Share
    from algoformer.data.protocol import data_from_header as data_from_header
    from algoformer.data.protocol import data_names as data_names
    from algoformer.data.protocol import register_data as register_data
    from algoformer.data.text import TextData as TextData
    from algoformer.data.translation import TranslationData as TranslationData
else:
    __getattr__, __dir__ = partial(lazy_attribute, __name__), partial(lazy_dir, __name__)
