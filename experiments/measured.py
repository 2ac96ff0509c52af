"""Numbers that notebooks 02 to 04 show beside their live ones, and that no row stores.

    python -m experiments measured                       # names, and what is stored
    python -m experiments measured blocks_6_at_0.01 --seed 2  # one seed, beside the stored ones
    python -m experiments measured blocks_6_at_0.01 --store   # all its seeds, stored

All numbers are percent, measured with one thread; null is a model that ended in nan.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import nbformat
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.course.ladder import ROWS, digits
from mnist_vit.course.ladder.loop import BATCH, accuracy, fit
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.ladder.tasks import digit_batches
from mnist_vit.files import shipped
from mnist_vit.model import MultiHeadAttention

FILE = RESULTS / "measured.json"


def run(name: str, seed: int | None = None) -> dict:
    """Measure with all seeds that are stored, or with the one given."""
    measure, count = MEASUREMENTS[name]
    if seed is not None:
        return {"percent": [measure(seed=seed)]}
    percent = [measure(seed=seed) for seed in range(count)]
    return {"percent": percent}


def drawing(num_heads: int, seed: int, judge: str = "explained") -> float:
    """Notebook 03: the share of the pixels' variance that the trained model explains.

    ``judge`` is the function of the notebook's figures that says so.
    """
    shown = cells_until("train_to_draw")
    attention: Any = MultiHeadAttention
    if num_heads == 1:
        attention = partial(nn.MultiheadAttention, batch_first=True)
    trained = shown["train_to_draw"](attention, num_heads, seed)
    return round(getattr(shown["figures"], judge)(trained), 1)


def cells_until(name: str) -> dict[str, Any]:
    """Run the code of notebook 03 until a name is defined; return all that is defined then."""
    path = shipped("notebooks") / "03_multi_head_attention.ipynb"
    shown: dict[str, Any] = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if name in shown:
            break
        if cell.cell_type == "code" and "setup" not in cell.metadata.get("tags", []):
            exec(cell.source, shown)
    return shown


def at_rate(row: str, learning_rate: float, seed: int) -> float:
    """The accuracy of a row of the ladder at a learning rate that was not chosen for it."""
    return ROWS[row].train(learning_rate, seed)[1]


def stack(
    row: str, learning_rate: float, seed: int, pixels: int = 1, fit: Callable[..., None] = fit
) -> float | None:
    """Notebook 04: the accuracy of six blocks with pixels multiplied; None if they end in nan."""
    torch.manual_seed(seed)
    model = ROWS[row].build()
    model.register_forward_pre_hook(lambda _, inputs: (pixels * inputs[0],))
    epochs = ROWS[row].epochs
    steps = epochs * math.ceil(len(digits("train")[0]) / BATCH)
    generator = torch.Generator().manual_seed(seed)
    fit(model, digit_batches("train", epochs, BATCH, generator), steps, learning_rate)
    if not model(digits("validation")[0]).isfinite().all():
        return None
    return accuracy(model, *digits("validation"))


def without_care(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], steps: int, learning_rate: float
) -> None:
    """The ladder's ``fit`` without clipped gradients and without warm-up."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    for step, (x, y) in enumerate(batches):
        cosine = math.cos(math.pi * step / steps)
        optimizer.param_groups[0]["lr"] = learning_rate * 0.5 * (1 + cosine)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


SETTINGS: dict[str, dict[str, Any]] = {
    "at_0.001": {"learning_rate": 0.001},
    "at_0.003": {"learning_rate": 0.003},
    "at_0.01": {"learning_rate": 0.01},
    "pixels_times_20": {"learning_rate": 0.003, "pixels": 20},
    "without_care": {"learning_rate": 0.01, "fit": without_care},
}
# A function that is called with seed=, and how many seeds are stored.
MEASUREMENTS: dict[str, tuple[Callable[..., float | None], int]] = {
    "draw_one_head": (partial(drawing, 1), 5),
    "draw_one_head_mean_row": (partial(drawing, 1, judge="by_mean_row"), 5),
    "draw_two_heads": (partial(drawing, 2), 5),
}
for row in ("same_head", "same_no_root"):
    for rate in (0.0003, 0.01):
        MEASUREMENTS[f"{row}_at_{rate:g}"] = partial(at_rate, row, rate), 5
for row in ("blocks_6", "no_norm_6"):
    for setting, options in SETTINGS.items():
        MEASUREMENTS[f"{row}_{setting}"] = partial(stack, row, **options), 3
NAMES = list(MEASUREMENTS)
