"""Identification of the algorithm that a loop runs, and certificates of its behaviour at depth."""

from algoformer.insight.certificate import DepthCertificate as DepthCertificate
from algoformer.insight.certificate import StateReport as StateReport
from algoformer.insight.certify import certify as certify
from algoformer.insight.identification import Identification as Identification
from algoformer.insight.identify import identify as identify
from algoformer.insight.layers import LayerReadouts as LayerReadouts
from algoformer.insight.layers import layers_as_passes as layers_as_passes
from algoformer.insight.probabilities import ProbabilityCertificate as ProbabilityCertificate
from algoformer.insight.probabilities import certify_probabilities as certify_probabilities
from algoformer.insight.probabilities import read_certificate as read_certificate
from algoformer.insight.stopping import StoppingRule as StoppingRule
from algoformer.insight.verdict import FamilyShare as FamilyShare
