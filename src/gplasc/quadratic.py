"""Small quadratic programs with non-negative unknowns: GEM's dual and the weights of a coreset."""

from __future__ import annotations

import torch
from torch import Tensor


def minimize_non_negative(matrix: Tensor, linear: Tensor) -> Tensor:
    """Minimize ``w' P w / 2 - b' w`` over w >= 0: positive definite (K, K) and (K,) to (K,), float64.

    With P = L L' this is ``|| L' w - L^-1 b ||^2 / 2`` up to a constant: least squares with non-negative unknowns,
    which an active-set method (scipy.optimize.nnls) solves exactly in finitely many steps.
    """
    factor = torch.linalg.cholesky(matrix.double())
    linear = linear.double().unsqueeze(1)
    free = torch.cholesky_solve(linear, factor).squeeze(1)
    if bool((free >= 0).all()):  # then the constraint does not bite
        return free
    from scipy.optimize import nnls

    target = torch.linalg.solve_triangular(factor, linear, upper=False).squeeze(1)
    solution, _ = nnls(factor.T.numpy(), target.numpy())
    return torch.from_numpy(solution)
