"""Identification of the algorithm that a loop runs, and certificates of its behaviour at depth."""

from algoformer.insight.certificate import DepthCertificate, StateReport
from algoformer.insight.certify import certify
from algoformer.insight.identification import Identification
from algoformer.insight.identify import identify
from algoformer.insight.layers import LayerReadouts, layers_as_passes
from algoformer.insight.probabilities import (
    ProbabilityCertificate,
    certify_probabilities,
    read_certificate,
)
from algoformer.insight.stopping import StoppingRule
from algoformer.insight.verdict import FamilyShare

__all__ = [
    "DepthCertificate",
    "FamilyShare",
    "Identification",
    "LayerReadouts",
    "ProbabilityCertificate",
    "StateReport",
    "StoppingRule",
    "certify",
    "certify_probabilities",
    "identify",
    "layers_as_passes",
    "read_certificate",
]
