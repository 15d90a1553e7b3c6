"""Parameters: attention, feed-forward, positions, the layer. This room knows no prompt and no loop."""

from algoformer.nn.attention import Attention as Attention
from algoformer.nn.attention import AttentionContext as AttentionContext
from algoformer.nn.attention import KVCache as KVCache
from algoformer.nn.feedforward import ACTIVATIONS as ACTIVATIONS
from algoformer.nn.feedforward import FeedForward as FeedForward
from algoformer.nn.layer import Layer as Layer
from algoformer.nn.layer import initialize as initialize
from algoformer.nn.layer import set_dropout as set_dropout
from algoformer.nn.positions import LearnedPositions as LearnedPositions
