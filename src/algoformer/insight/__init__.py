"""What happens inside a loop: which algorithm it runs, and how it behaves beyond its trained depth."""

from algoformer.insight.identification import Identification
from algoformer.insight.identify import identify

__all__ = [
    "Identification",
    "identify",
]
