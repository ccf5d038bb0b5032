"""Peak memory of the losses over pairs for a large batch, gradient included.

    python benchmarks/loss_memory.py [rows] [dimensions]

Each loss runs in a process of its own; its peak resident memory minus that of a process which only makes the
batch and runs a tiny loss is what the loss itself needs. Prints one line a loss, and fails above 1.5 GB.
"""

import multiprocessing
import resource
import sys
import time

LIMIT_GB = 1.5


def peak(name: str, rows: int, dim: int) -> tuple[float, float]:
    """Peak resident memory of this process in bytes, and the seconds that the loss took."""
    import torch

    from gplasc import losses

    generator = torch.Generator().manual_seed(0)
    z = losses.unit_rows(torch.randn(rows, dim, generator=generator)).requires_grad_()
    teacher = losses.unit_rows(torch.randn(rows, dim, generator=generator))
    y = torch.randint(0, 10, (rows,), generator=generator)

    def value(rows: int) -> torch.Tensor:
        if name == "supcon":
            return losses.supcon(z[:rows], y[:rows], temperature=0.1)
        if name == "range_loss":
            return losses.range_loss(z[:rows], y[:rows], 0.4)
        return losses.relation_distillation(
            z[:rows], teacher[:rows], student_temperature=0.2, teacher_temperature=0.01
        )

    # Code and buffers that any loss loads are not what is measured.
    value(8).backward()
    start = time.perf_counter()
    if name != "baseline":
        value(rows).backward()
    seconds = time.perf_counter() - start
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, seconds


def main() -> int:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 16_384
    dim = int(sys.argv[2]) if len(sys.argv) > 2 else 128
    context = multiprocessing.get_context("spawn")
    measured = {}
    for name in ("baseline", "supcon", "range_loss", "relation_distillation"):
        # A fresh process each, since peak memory never falls within one.
        with context.Pool(1) as pool:
            measured[name] = pool.apply(peak, (name, rows, dim))
    worst = 0.0
    for name, (memory, seconds) in measured.items():
        if name == "baseline":
            continue
        needed = (memory - measured["baseline"][0]) / 1e9
        worst = max(worst, needed)
        print(f"{name:<24} {rows} x {dim}: peak {needed:.3f} GB, {seconds:.1f} s with gradient")
    full = 4 * rows * rows / 1e9
    print(f"one full pair matrix would be {full:.3f} GB; limit {LIMIT_GB} GB")
    return 0 if worst < LIMIT_GB else 1


if __name__ == "__main__":
    raise SystemExit(main())
