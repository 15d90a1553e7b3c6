"""Theorems as weights: functions that build ordinary models, and comparisons with the textbook algorithm.

A builder returns an `AlgoFormer` of Equation-1 layers whose loop can be run for any number of steps:

>>> import torch
>>> from algoformer.algorithms import GradientDescent
>>> from algoformer.tasks import LinearRegression
>>> from algoformer.trace import Unroll
>>> task = LinearRegression(dim=3, points=9)
>>> prompt = task.sample(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).prefix()
>>> built = gradient_descent(dim=3, examples=8, step_size=0.3)(prompt, Unroll(steps=50))
>>> textbook = GradientDescent(step_size=0.3)(prompt, Unroll(steps=50))
>>> bool((built.predictions - textbook.predictions).abs().max() < 1e-6)
True
"""

from algoformer.theory.autoregressive import autoregressive as autoregressive
from algoformer.theory.blueprint import Blueprint as Blueprint
from algoformer.theory.blueprint import BuildOptions as BuildOptions
from algoformer.theory.blueprint import blueprint_of as blueprint_of
from algoformer.theory.chain import chain as chain
from algoformer.theory.checks import alpha_limit as alpha_limit
from algoformer.theory.checks import check_alpha as check_alpha
from algoformer.theory.checks import check_converges as check_converges
from algoformer.theory.checks import check_scale as check_scale
from algoformer.theory.checks import step_size_limit as step_size_limit
from algoformer.theory.constants import DOUBLE as DOUBLE
from algoformer.theory.constants import SINGLE as SINGLE
from algoformer.theory.constants import Constants as Constants
from algoformer.theory.copying import copy as copy
from algoformer.theory.decoder import decoder_gradient_descent as decoder_gradient_descent
from algoformer.theory.decoder_newton import decoder_newton as decoder_newton
from algoformer.theory.decoder_newton_serial import decoder_newton_serial as decoder_newton_serial
from algoformer.theory.decoder_newton_serial import passes_per_step as passes_per_step
from algoformer.theory.gradient_descent import gradient_descent_step as gradient_descent_step
from algoformer.theory.gradient_descent import prepared as prepared
from algoformer.theory.network import Network as Network
from algoformer.theory.network import network_of as network_of
from algoformer.theory.newton import newton as newton
from algoformer.theory.newton import padded as padded
from algoformer.theory.representation import gradient_descent as gradient_descent
from algoformer.theory.representation import representation as representation
from algoformer.theory.statement import Sizes as Sizes
from algoformer.theory.statement import Statement as Statement
from algoformer.theory.statement import count_modules as count_modules
from algoformer.theory.subspace import Subspaces as Subspaces
from algoformer.theory.subspace import quasi_orthogonal as quasi_orthogonal
from algoformer.theory.variants import heavy_ball as heavy_ball
from algoformer.theory.variants import ridge as ridge
from algoformer.theory.verify import REGISTRY as REGISTRY
from algoformer.theory.verify import Report as Report
from algoformer.theory.verify import error_against_c as error_against_c
from algoformer.theory.verify import error_against_sink as error_against_sink
from algoformer.theory.verify import error_by_step as error_by_step
from algoformer.theory.verify import show as show
from algoformer.theory.verify import verify as verify
