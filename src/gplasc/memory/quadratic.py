"""Small quadratic programs with non-negative variables: the dual problem of GEM and the weights of a coreset."""

import torch
from torch import Tensor


def minimize_non_negative(matrix: Tensor, linear: Tensor) -> Tensor:
    """Minimize ``w' P w / 2 - b' w`` over w >= 0, for a positive definite P (K, K) and b (K,); return w (K,), float64.

    With P = L L' this is ``|| L' w - L^-1 b ||^2 / 2`` up to a constant: non-negative least squares, which an
    active-set method (scipy.optimize.nnls) solves exactly in finitely many steps.
    """
    factor = torch.linalg.cholesky(matrix.double())
    linear = linear.double().unsqueeze(1)
    free = torch.cholesky_solve(linear, factor).squeeze(1)
    if bool((free >= 0).all()):  # the constraint is inactive
        return free
    from scipy.optimize import nnls

    target = torch.linalg.solve_triangular(factor, linear, upper=False).squeeze(1)
    solution, _ = nnls(factor.T.numpy(), target.numpy())
    return torch.from_numpy(solution)
