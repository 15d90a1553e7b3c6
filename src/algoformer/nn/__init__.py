"""Parameters: attention, feed-forward, norms, positions, the layer. This room knows no prompt and no loop."""

from algoformer.nn.layer import Attention as Attention
from algoformer.nn.layer import AttentionContext as AttentionContext
from algoformer.nn.layer import AttentionMask as AttentionMask
from algoformer.nn.layer import FeedForward as FeedForward
from algoformer.nn.layer import KVCache as KVCache
from algoformer.nn.layer import Layer as Layer
from algoformer.nn.layer import added_to_scores as added_to_scores
from algoformer.nn.layer import initialize as initialize
from algoformer.nn.layer import set_dropout as set_dropout
from algoformer.nn.layers import QK_NORMS as QK_NORMS
from algoformer.nn.tables import ACTIVATIONS as ACTIVATIONS
from algoformer.nn.tables import NORMS as NORMS
from algoformer.nn.tables import PLACES as PLACES
from algoformer.nn.tables import POSITIONS as POSITIONS
from algoformer.nn.tables import LayerSizes as LayerSizes
from algoformer.nn.tables import LearnedPositions as LearnedPositions
from algoformer.nn.tables import check_places as check_places
from algoformer.nn.tables import register_activation as register_activation
from algoformer.nn.tables import register_norm as register_norm
from algoformer.nn.tables import register_positions as register_positions
from algoformer.nn.tables import sinusoids as sinusoids
