"""Identification of the algorithm that a loop runs, and certificates of its behaviour at depth."""

from algoformer.insight.certificate import DepthCertificate, StateReport
from algoformer.insight.certify import certify
from algoformer.insight.identification import Identification
from algoformer.insight.identify import identify
from algoformer.insight.probabilities import ProbabilityCertificate, certify_probabilities
from algoformer.insight.stopping import StoppingRule
from algoformer.insight.verdict import FamilyShare

__all__ = [
    "DepthCertificate",
    "FamilyShare",
    "Identification",
    "ProbabilityCertificate",
    "StateReport",
    "StoppingRule",
    "certify",
    "certify_probabilities",
    "identify",
]
