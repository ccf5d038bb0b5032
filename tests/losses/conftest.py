import pytest

from gplasc.losses import kernels


@pytest.fixture
def in_blocks(monkeypatch):
    """Compute pairs of a batch of `rows` rows in blocks of `height` rows; None leaves the batch whole."""

    def limit(height: int | None, rows: int = 1) -> None:
        if height is not None:
            monkeypatch.setattr(kernels, "PAIRS_PER_BLOCK", height * rows)

    return limit
