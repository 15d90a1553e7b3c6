"""What a model learns from: prompts of a task, parallel text, labelled text, plain text."""

from algoformer.data.labelled import LabelledData as LabelledData
from algoformer.data.prompts import PromptData as PromptData
from algoformer.data.protocol import Batches as Batches
from algoformer.data.protocol import Data as Data
from algoformer.data.protocol import Loss as Loss
from algoformer.data.protocol import Share as Share
from algoformer.data.registry import data_from_header as data_from_header
from algoformer.data.registry import data_names as data_names
from algoformer.data.registry import register_data as register_data
from algoformer.data.text import TextData as TextData
from algoformer.data.translation import TranslationData as TranslationData
