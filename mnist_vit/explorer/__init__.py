"""The live page: one HTML file with the model in it, or with stored attention weights if a browser
cannot run it.

Python only fills ``page.html``; ``model.js`` is the model in JavaScript, the other scripts are the
user interface.
"""

import base64
import hashlib
import html
import io
import json
import math
import re
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib import colormaps
from torch import Tensor, nn

from ..attention import attention_weights, to_maps
from ..building import model_config
from ..evaluation import Evaluation
from ..files import write_text
from ..forward import eval_mode, logits_of
from ..model import VisionTransformer
from ..tokens import patch_grid, pools_patches

__all__ = ["Page", "live_twin", "pack", "write_page"]

HERE = Path(__file__).parent
VIRIDIS = torch.from_numpy(colormaps["viridis"](range(256), bytes=True)[:, :3].copy())
KINDS = (".js", ".css", ".html")
SCRIPTS = ("pictures.js", "effects.js", "maps.js", "view.js", "explorer.js")
STORED = (
    "; the model cannot run here (it is too large, not of this course's or torchvision's class, or"
    " has a transform of your own): its attention weights are stored, with an error of at most"
    " 0.002"
)
REGIONS = (
    "; {} × {} patches are too many to store: each square is one of {} × {} regions, with the sum"
    " of its patches' weights"
)
MOST = 500, 20  # images in a live page, and in one of stored weights
POLICY = (
    "default-src 'none'; script-src {} {}; style-src {}; img-src data: blob:; worker-src blob:;"
    " base-uri 'none'; form-action 'none'"
)


class Page(type(Path())):  # type: ignore[misc]
    """The path of a page. A notebook shows the page, or a sentence and a picture where scripts are
    removed."""

    instead = ""

    def _repr_html_(self) -> str:
        both = (
            f"<p>{html.escape(self.name)} runs in a trusted notebook or in a browser. A"
            f" picture:</p>{self.instead}"
        )
        frame = (
            '<iframe class="mnist-vit-page" sandbox="allow-scripts"'
            ' style="grid-area:1/1;width:100%;height:860px;border:0"'
            f' srcdoc="{html.escape(self.read_text(encoding="utf-8"))}"></iframe>'
        )
        return (
            '<div class="mnist-vit-page" style="display:grid"><div'
            f' style="grid-area:1/1">{both}</div>{frame}</div>'
        )


def live_twin(model: nn.Module, images: Tensor) -> VisionTransformer | None:
    """The course's own class with this model's weights, if its logits are the same and a browser
    can run it."""
    try:
        norm_layer = partial(nn.LayerNorm, eps=model.encoder.ln.eps)
        twin = VisionTransformer(**model_config(model), norm_layer=norm_layer).eval()
        twin.load_state_dict(model.state_dict())
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return None
    s, size = twin.seq_length, sum(p.numel() for p in twin.parameters())
    products = s * (
        size + 2 * s * twin.hidden_dim * len(twin.encoder.layers)
    )  # a browser does a billion a second
    with torch.no_grad(), eval_mode(model):
        logits, again = model(images).float().cpu(), twin(images.float().cpu())
    rounding = max(1e-4, 20 * torch.finfo(next(model.parameters()).dtype).eps) * max(
        1, float(logits.abs().max())
    )
    same = (logits - again).abs().max() <= rounding
    return twin if same and products < 1.5e9 and size < 6e6 else None


def evenly(n: int, most: int = MOST[0]) -> list[int]:
    """At most ``most`` of n indices, evenly spaced."""
    return [i * n // min(n, most) for i in range(min(n, most))]


def of_regions(
    weights: Tensor, grid: tuple[int, int], most: int = 5_600_000
) -> tuple[Tensor, tuple[int, int]]:
    """The weights, or, if there are more than ``most``, those among the regions of a coarser grid;
    and the grid used.

    A region's row is the mean of its patches' rows; the weight on a region is the sum of the
    weights on its patches. Shape: (num_layers, num_heads, s, s) -> (num_layers, num_heads, t, t);
    tokens before the patches stay.
    """
    prefix, regions, longer = weights.shape[-1] - math.prod(grid), grid, max(grid)
    while longer > 1 and math.prod(weights.shape[:2]) * (prefix + math.prod(regions)) ** 2 > most:
        longer -= 1
        regions = max(1, grid[0] * longer // max(grid)), max(1, grid[1] * longer // max(grid))
    if regions == grid:
        return weights, grid

    def within(
        n: int, k: int
    ) -> Tensor:  # (k, n): each patch in a row is cut into k pieces; n pieces are a region
        return torch.eye(n).repeat_interleave(k, dim=1).view(n, k, n).sum(dim=2).T / k

    share = torch.block_diag(torch.eye(prefix), torch.kron(*map(within, grid, regions))).to(weights)
    return share / share.sum(dim=1, keepdim=True) @ weights @ share.T, regions


def pack(weights: Tensor, most: int = 5_000_000) -> tuple[str, int]:
    """Attention weights to within 0.002, deflated, in base64, in ``most`` bytes if possible; and
    the number of levels.

    A byte stores the square root of a weight, since most weights are small. Large weights have a
    second byte; the second bytes follow after all first bytes.
    """
    for levels in (255, 180, 128, 90, 64):
        roots = weights.flatten().float().clamp(0, 1).sqrt() * levels
        codes = roots.round()
        more = ((roots - codes + 0.5) * 255).round()[codes >= 0.002 * levels**2 - 0.25]
        packed = _base64(zlib.compress(torch.cat([codes, more]).to(torch.uint8).numpy().tobytes()))
        if len(packed) <= most:
            break
    return packed, levels


@torch.no_grad()
def write_page(
    path: str | Path,
    model: nn.Module,
    images: Tensor,
    pictures: Tensor,
    names: list[str],
    labels: list[int] | None,
    found: Evaluation | None = None,
    **about: Any,
) -> Page:
    """Write the page of some images, evenly spaced if there are more than ``MOST``.

    ``images`` are normalised, ``pictures`` uint8, both (n, c, h, w).

    ``about``: ``title``, ``text``, ``classes``, ``mean`` and ``std`` (None: not known),
    ``digits`` (whether the pictures have MNIST's form).
    """
    twin = live_twin(model, images[:4]) if about["mean"] else None
    some = evenly(len(images), MOST[twin is None])
    images, pictures, about["text"] = (
        images[some],
        pictures[some].cpu(),
        f"{len(some):,} of {about['text']}",
    )
    with eval_mode(model):
        logits = torch.cat([logits_of(model, part).float().cpu() for part in images.split(50)])
    sure, best = (x.tolist() for x in logits.softmax(dim=1).max(dim=1))
    examples: list[dict[str, Any]] = [
        {
            "name": names[i],
            "label": labels and labels[i],
            "prediction": which,
            "probability": round(probability, 5),
        }
        for i, which, probability in zip(some, best, sure, strict=True)
    ]
    stored, data = _script("pixels", pictures), dict[str, Any](weights=[], config=None)
    one = attention_weights(model, images[:1])[0]
    grid = patches = patch_grid(one.shape[-1], *images.shape[-2:])
    prefix = ["class token", *(f"extra token {i}" for i in range(1, 99))][
        : one.shape[-1] - math.prod(grid)
    ]
    pooled = pools_patches(model, len(prefix))
    if twin:
        state, start = twin.state_dict(), 0
        data["config"] = model_config(twin) | {"eps": twin.encoder.ln.eps}
        stored += _script("weights", torch.cat([values.flatten() for values in state.values()]))
        for name, values in state.items():
            data["weights"].append((name, start, start := start + values.numel()))
    else:
        for i, example in enumerate(examples):
            weights, grid = of_regions(
                attention_weights(model, images[i : i + 1])[0].cpu(), patches
            )
            packed, example["levels"] = pack(
                weights, 4_990_000 - 4 * math.ceil(pictures[0].numel() / 3)
            )
            example["logits"] = logits[i].tolist()
            stored += f'<script id="attention-{i}" type="text/plain">{packed}</script>\n'
        about["text"] += STORED + ("" if grid == patches else REGIONS.format(*patches, *grid))
    matrix = None
    if found is not None and len(found.classes) <= 25:
        told = (
            f"{found.data}: {found.total - found.correct} of {found.total:,} misclassified. Rows:"
            " truth, columns: prediction. Click a number for its examples, as far as they are in"
            " this page"
        )
        matrix = {"counts": found.matrix.tolist(), "text": told}
    data |= about | {
        "image": pictures.shape[1:],
        "grid": grid,
        "prefix": prefix,
        "layers": len(one),
        "heads": len(one[0]),
        "reads": "mean" if pooled else "token",
        "examples": examples,
        "matrix": matrix,
        "colours": VIRIDIS.flatten().tolist(),
    }
    parts = {
        file.name: file.read_text(encoding="utf-8")
        for file in HERE.iterdir()
        if file.suffix in KINDS
    }
    fill = {
        "model": parts["model.js"],
        "script": "\n".join(parts[x] for x in SCRIPTS),
        "style": parts["style.css"],
    }
    hashes = [
        f"'sha256-{_base64(hashlib.sha256(part.encode()).digest())}'" for part in fill.values()
    ]
    fill |= {
        "title": html.escape(about["title"]),
        "policy": POLICY.format(*hashes),
        "stored": stored,
    }
    fill["data"] = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    page = Page(
        write_text(path, re.sub(r"\{\{(\w+)\}\}", lambda name: fill[name[1]], parts["page.html"]))
    )
    asked = slice(len(prefix), None) if pooled else slice(1)
    page.instead = _still(
        pictures[0], to_maps(one[:4, :8, asked].mean(dim=2), patches).float().cpu()
    )
    return page


def _still(picture: Tensor, maps: Tensor) -> str:
    """A picture and its maps, a row for a layer, a column for a head, one scale within a layer, as
    two <img>."""
    from torchvision.transforms.v2.functional import to_pil_image

    low, high = maps.amin(dim=(1, 2, 3), keepdim=True), maps.amax(dim=(1, 2, 3), keepdim=True)
    coloured = VIRIDIS[((maps - low) / (high - low).clamp(min=1e-12) * 255).long()].permute(
        4, 0, 2, 1, 3
    )
    apart, shown = nn.functional.pad(coloured, (0, 1, 0, 0, 0, 1), value=255), ""
    for part in (picture[:3] if len(picture) > 2 else picture[:1], apart):
        image, file = (
            to_pil_image(part if part.dim() == 3 else part.flatten(3).flatten(1, 2)),
            io.BytesIO(),
        )
        image.resize((280, 280 * image.height // image.width), resample=0).save(file, format="PNG")
        shown += (
            '<img alt="picture, or maps of its heads"'
            f' src="data:image/png;base64,{_base64(file.getvalue())}"> '
        )
    return shown


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _script(name: str, numbers: Tensor) -> str:
    return f'<script id="{name}" type="text/plain">{_base64(numbers.numpy().tobytes())}</script>\n'
