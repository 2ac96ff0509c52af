"""How long does a step of Muon for vit_mnist take: torch's, in bfloat16, against ours, in float32?
One thread.

    python -m benchmarks muon
    ONEDNN_MAX_CPU_ISA=AVX2 python -m benchmarks muon  # as on a processor without bfloat16

Prints milliseconds and their ratio; the figures stand in the docstring of
``mnist_vit.optimizers.Muon``.
"""

import argparse
from collections.abc import Callable

import measure
import torch

from mnist_vit.model import vit_mnist
from mnist_vit.optimizers import Muon

STEPS = 50


def steps(kind: type[torch.optim.Muon]) -> Callable[[], None]:
    """A function that takes STEPS steps with the matrices of vit_mnist's encoder and the same
    random gradients."""
    torch.manual_seed(0)
    matrices = [
        p
        for name, p in vit_mnist().named_parameters()
        if "encoder.layers." in name and p.dim() == 2
    ]
    for matrix in matrices:
        matrix.grad = torch.randn_like(matrix)
    optimizer = kind(matrices, lr=6e-3, adjust_lr_fn="match_rms_adamw")

    def run() -> None:
        for _ in range(STEPS):
            optimizer.step()

    return run


def main() -> None:
    """Time both in turn and print what a step takes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, help="how often each is run (default 7)")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    measured = measure.compare(steps(torch.optim.Muon), steps(Muon), rounds)
    theirs, ours = (1000 * seconds / STEPS for seconds in measured["seconds"])
    print(
        f"torch's {theirs:.1f} ms, ours {ours:.1f} ms a step; ratio {measured['ratio']:.2f} "
        f"({measured['lowest']:.2f} to {measured['highest']:.2f})"
    )


if __name__ == "__main__":
    main()
