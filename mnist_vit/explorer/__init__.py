"""The live page: one HTML file with the model in it, or with stored attention weights.

Weights are stored if a browser cannot run the model. Python only fills ``page.html``; ``model.js``
is the model in JavaScript, the other scripts are the user interface.
"""

import base64
import copy
import hashlib
import html
import inspect
import io
import json
import math
import re
import zlib
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib import colormaps
from torch import Tensor, nn

from ..attention import attention_weights, to_maps
from ..building import model_config
from ..errors import NOT_FINITE
from ..evaluation import Evaluation
from ..files import read_file, shipped, write_text
from ..forward import eval_mode, logits_of
from ..model import VisionTransformer
from ..relevance import relevance
from ..tokens import patch_grid, pools_patches

__all__ = ["Beside", "Page", "live_twin", "pack", "write_page"]

HERE = Path(__file__).parent
VIRIDIS = torch.from_numpy(colormaps["viridis"](range(256), bytes=True)[:, :3].copy())
SCRIPTS = (
    "pictures.js",
    "effects.js",
    "maps.js",
    "terms.js",
    "address.js",
    "saving.js",
    "origin.js",
    "opening.js",
    "tour.js",
    "view.js",
    "explorer.js",
)
GLOSSARY = re.compile(r"^### (.+)\n\n(.+)$", re.MULTILINE)
TERMS = re.compile(r'data-term="([^"]+)"|\bterm(?:: |\()"([^"]+)"')  # in page.html, in a script
MOST_LIVE = 500  # images in a live page
MOST_STORED = 20  # images in a page of stored weights
LARGEST = 6e6  # parameters of a model that is run in a page
SLOWEST = 1.5e9  # products in a forward pass there; a browser does a billion a second

# The options of model.js and the values that it knows; None: any. A model with another value, or
# with another option that is not at its default, is not run in the page.
KNOWN_OPTIONS: dict[str, tuple[str, ...] | None] = {
    "image_size": None,
    "patch_size": None,
    "num_layers": None,
    "num_heads": None,
    "hidden_dim": None,
    "mlp_dim": None,
    "dropout": None,
    "attention_dropout": None,
    "num_classes": None,
    "representation_size": None,
    "in_channels": None,
    "pool": ("token", "mean"),
    "eps": None,
}

STORED = (
    "; the model cannot run here ({}): its attention weights are stored, with an error of at most"
    " 0.002"
)
OTHER_MODEL = (
    "it is too large, not of this course's or torchvision's class, or has a transform of your own"
)
HEADLESS = "it has no class head: there are maps, and no answer"
REGIONS = (
    "; {} × {} patches are too many to store: each square is one of {} × {} regions, with the sum"
    " of its patches' weights"
)
MADE_BY = b'<meta name="generator" content="mnist_vit">'
POLICY = (
    "default-src 'none'; script-src {} {}; style-src {}; img-src data: blob:; worker-src blob:;"
    " base-uri 'none'; form-action 'none'"
)

# The page cannot see the notebook: it is told the colour of the text there, light in a dark theme.
THEME = "onload=\"this.contentWindow.postMessage(getComputedStyle(this.parentNode).color, '*')\""


@dataclass(frozen=True)
class Beside:
    """The page of another model in the same folder, in which the tour begins or goes on.

    Attributes:
        file: its name in the folder.
        name: its model's.
        tokens, patches: how many its model has of one picture.
        first: whether the tour begins there; else it goes on there.
        own: the name of the model of the page that this is written into.
    """

    file: str
    name: str
    tokens: int
    patches: int
    first: bool
    own: str


class Page(type(Path())):  # type: ignore[misc]
    """The path of a page. A notebook shows the page.

    Where scripts are removed, it shows a sentence and a picture.
    """

    instead = ""

    def _repr_html_(self) -> str:
        both = (
            f"<p>{html.escape(self.name)} runs in a trusted notebook or in a browser. A"
            f" picture:</p>{self.instead}"
        )
        frame = (
            f'<iframe class="mnist-vit-page" sandbox="allow-scripts allow-downloads" {THEME}'
            ' style="grid-area:1/1;width:100%;height:860px;border:0"'
            f' srcdoc="{html.escape(self.read_text(encoding="utf-8"))}"></iframe>'
        )
        return (
            '<div class="mnist-vit-page" style="display:grid"><div'
            f' style="grid-area:1/1">{both}</div>{frame}</div>'
        )


def live_twin(model: nn.Module, images: Tensor) -> VisionTransformer | None:
    """The course's own class with this model's weights, if a browser can run it.

    None if the model is too large, or if it is another function of weights and images.
    """
    try:
        norm_layer = partial(nn.LayerNorm, eps=model.encoder.ln.eps)
        twin = VisionTransformer(**model_config(model), norm_layer=norm_layer).eval()
        twin.load_state_dict(model.state_dict())
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return None
    if unknown_options(page_config(twin)) or not _is_small(twin):
        return None
    return twin if _compute_the_same(model, twin, images) else None


def _compute_the_same(model: nn.Module, twin: nn.Module, images: Tensor) -> bool:
    """Whether two models are one function of weights and images, to the rounding of float64.

    Both get the same random weights: trained ones may hide a difference, such as GELU's tanh form.
    """
    generator = torch.Generator().manual_seed(0)
    state = {}
    for name, values in twin.state_dict().items():
        state[name] = 0.2 * torch.randn(values.shape, generator=generator, dtype=torch.float64)
    logits = []
    try:
        for one in (copy.deepcopy(model), copy.deepcopy(twin)):
            one.cpu().double().eval().load_state_dict(state)
            with torch.no_grad():
                logits.append(one(images.cpu().double()))
    except (RuntimeError, TypeError, ValueError):  # not in float64, or not with these weights
        return False
    largest = max(1, float(logits[0].abs().max()))
    return float((logits[0] - logits[1]).abs().max()) <= 1e-9 * largest


def check_place(path: Path) -> None:
    """Raise ValueError if a page at this path would replace what is not a page of this package."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file, such as {path / 'page.html'}")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path} is no .html file: name a file such as {path.stem}.html")
    if path.exists() and MADE_BY not in read_file(path):
        raise ValueError(f"{path} was not written by mnist_vit: name another file")


def page_config(model: nn.Module) -> dict[str, Any]:
    """What ``VisionTransformer`` in ``model.js`` is built with.

    An option that ``model.js`` does not know is left out if it has its default value.
    """
    parameters = inspect.signature(VisionTransformer).parameters
    config = {}
    for name, value in model_config(model).items():
        if name in KNOWN_OPTIONS or value != parameters[name].default:
            config[name] = value
    return config | {"eps": model.encoder.ln.eps}


def unknown_options(config: dict[str, Any]) -> list[str]:
    """The options of a config that ``model.js`` does not know, as ``name=value``."""
    found = []
    for name, value in config.items():
        values = KNOWN_OPTIONS.get(name)
        if name not in KNOWN_OPTIONS or (values is not None and value not in values):
            found.append(f"{name}={value!r}")
    return found


def _is_small(model: VisionTransformer) -> bool:
    """Whether a browser computes the logits in about a second."""
    size = sum(parameter.numel() for parameter in model.parameters())
    s = model.seq_length
    products = s * (size + 2 * s * model.hidden_dim * len(model.encoder.layers))
    return products < SLOWEST and size < LARGEST


def _why_stored(model: nn.Module) -> str:
    """The reason for which a page holds stored weights, in words."""
    try:
        unknown = unknown_options(page_config(model))
    except (AttributeError, IndexError):  # no model of this kind
        unknown = []
    if unknown:
        return f"the page does not know {', '.join(unknown)}"
    return OTHER_MODEL


def evenly(n: int, most: int = MOST_LIVE) -> list[int]:
    """At most ``most`` of n indices, evenly spaced."""
    count = min(n, most)
    return [i * n // count for i in range(count)]


def of_regions(
    weights: Tensor, grid: tuple[int, int], most: int = 5_600_000
) -> tuple[Tensor, tuple[int, int]]:
    """The weights, or those among the regions of a coarser grid if there are more than ``most``.

    A region's row is the mean of its patches' rows; the weight on a region is the sum of the
    weights on its patches. Returns the weights and the grid used. Shape: (num_layers, num_heads, s,
    s) -> (num_layers, num_heads, t, t); tokens before the patches stay.
    """
    heads = math.prod(weights.shape[:2])
    prefix = weights.shape[-1] - math.prod(grid)
    regions, longer = grid, max(grid)
    while longer > 1 and heads * (prefix + math.prod(regions)) ** 2 > most:
        longer -= 1
        rows, columns = (max(1, side * longer // max(grid)) for side in grid)
        regions = rows, columns
    if regions == grid:
        return weights, grid

    of_rows = _shares(grid[0], regions[0])
    of_columns = _shares(grid[1], regions[1])
    # (t, s): the share of each token in each region
    share = torch.block_diag(torch.eye(prefix), torch.kron(of_rows, of_columns)).to(weights)
    mean = share / share.sum(dim=1, keepdim=True)
    return mean @ weights @ share.T, regions


def _shares(patches: int, regions: int) -> Tensor:
    """The share of each patch of a line in each region, (regions, patches).

    Each patch is cut into as many pieces as there are regions; a region has ``patches`` pieces.
    """
    pieces = torch.eye(patches).repeat_interleave(regions, dim=1)
    counts = pieces.view(patches, regions, patches).sum(dim=2)
    return (counts.T / regions).contiguous()


def pack(weights: Tensor, most: int = 5_000_000) -> tuple[str, int]:
    """Attention weights to within 0.002, deflated, in base64, in ``most`` bytes if possible.

    A byte stores the square root of a weight, since most weights are small. Large weights have a
    second byte; the second bytes follow after all first bytes. Returns the text and the number of
    levels of a byte.
    """
    for levels in (255, 180, 128, 90, 64):
        roots = weights.flatten().float().clamp(0, 1).sqrt() * levels
        codes = roots.round()
        is_large = codes >= 0.002 * levels**2 - 0.25
        more = ((roots - codes + 0.5) * 255).round()[is_large]
        content = torch.cat([codes, more]).to(torch.uint8)
        packed = _base64(zlib.compress(content.numpy().tobytes()))
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
    """Write the page of some images, evenly spaced if there are more than a page holds.

    ``images`` are normalised, ``pictures`` uint8, both (n, c, h, w).

    ``about``: ``title``, ``text``, ``classes`` (none for a model without a class head), ``mean``
    and ``std`` (None: not known), ``digits`` (whether the pictures have MNIST's form), ``grid``
    (rows and columns of patches, if the model does not tell them), ``beside`` (a ``Beside``, or
    None: the page stands alone), ``smoothing`` (the label smoothing in training; None: not known).
    """
    check_place(Path(path))
    has_head = len(about["classes"]) > 0
    twin = live_twin(model, images[:4]) if about["mean"] and has_head else None
    some = evenly(len(images), MOST_STORED if twin is None else MOST_LIVE)
    images, pictures = images[some], pictures[some].cpu()
    about["text"] = f"{len(some):,} of {about['text']}"
    examples = [_example(names[i], labels[i] if labels else None) for i in some]
    logits = None
    if has_head:
        logits = _all_logits(model, images)
        _add_predictions(examples, logits)

    first = attention_weights(model, images[:1])[0]
    s = first.shape[-1]
    grid = about.get("grid") or patch_grid(model, images)
    prefix = _token_names(s - math.prod(grid))
    pooled = pools_patches(model, len(prefix))
    data: dict[str, Any] = {"weights": [], "config": None}
    stored = _script("pixels", pictures)
    regions = grid
    if twin is not None:
        data["config"] = page_config(twin)
        data["weights"], script = _model_weights(twin)
        stored += script
    else:
        scripts, regions = _stored_weights(model, images, pictures, examples, grid)
        stored += scripts
        if logits is not None:
            for example, values in zip(examples, logits.tolist(), strict=True):
                example["logits"] = values
        about["text"] += STORED.format(_why_stored(model) if has_head else HEADLESS)
        if regions != grid:
            about["text"] += REGIONS.format(*grid, *regions)
    relevance_text = None
    if logits is not None:
        pairs = _pairs(logits, examples)
        try:
            maps = _relevance_maps(model, images, pairs, grid, regions)
        except ValueError as error:  # the model has an operation without a rule
            relevance_text = str(error)
        else:
            relevance_text = ""
            stored += _script("relevance", _levels(maps, examples))
    beside = about.get("beside")
    smoothing = about.pop("smoothing", None)
    data |= about | {
        "beside": beside and asdict(beside),
        "aim": _aim(smoothing, len(about["classes"])),
        "image": pictures.shape[1:],
        "grid": regions,
        "prefix": prefix,
        "layers": len(first),
        "heads": len(first[0]),
        "reads": "mean" if pooled else "token",
        "examples": examples,
        "matrix": _matrix(found),
        "found": found and {"wrong": found.total - found.correct, "total": found.total},
        "terms": terms(),
        "relevance": relevance_text,
        "colours": VIRIDIS.flatten().tolist(),
    }
    page = Page(write_text(path, _fill_page(about["title"], data, stored)))
    query = slice(len(prefix), None) if pooled else slice(1)
    maps = to_maps(first[:4, :8, query].mean(dim=2), grid).float().cpu()
    page.instead = _still(pictures[0], maps)
    return page


def terms() -> dict[str, str]:
    """The terms of the page with their definitions, from the course's glossary."""
    defined = dict(GLOSSARY.findall(read_file(shipped("notebooks") / "glossary.md").decode()))
    used = {"class token"}
    for part in ("page.html", *SCRIPTS):
        used |= {name or other for name, other in TERMS.findall(_part(part))}
    return {name: defined[name] for name in sorted(used)}


def _all_logits(model: nn.Module, images: Tensor) -> Tensor:
    """Raises ValueError if they are not finite."""
    with eval_mode(model):
        logits = torch.cat([logits_of(model, part).float().cpu() for part in images.split(50)])
    if not logits.isfinite().all():
        raise ValueError(NOT_FINITE)
    return logits


def _aim(smoothing: float | None, classes: int) -> float | None:
    """The probability of the label that smoothed labels ask for; None without smoothing."""
    if not smoothing or classes == 0:
        return None
    return 1 - smoothing + smoothing / classes


def _example(name: str, label: int | None) -> dict[str, Any]:
    return {"name": name, "label": label, "prediction": None, "probability": 0}


def _add_predictions(examples: list[dict[str, Any]], logits: Tensor) -> None:
    probabilities, predictions = logits.softmax(dim=1).max(dim=1)
    for example, probability, prediction in zip(
        examples, probabilities.tolist(), predictions.tolist(), strict=True
    ):
        example["prediction"] = prediction
        example["probability"] = round(probability, 5)


def _pairs(logits: Tensor, examples: list[dict[str, Any]]) -> Tensor:
    """The classes that the page compares first, (n, 2): the prediction, and the truth or the next.

    A model of one class has nothing to compare with: (n, 1).
    """
    pairs = logits.topk(min(2, logits.shape[1]), dim=1).indices
    for pair, example in zip(pairs, examples, strict=True):
        if example["label"] not in (None, int(pair[0])):
            pair[1] = example["label"]
    return pairs


def _relevance_maps(
    model: nn.Module,
    images: Tensor,
    pairs: Tensor,
    grid: tuple[int, int],
    regions: tuple[int, int],
) -> Tensor:
    """How much each region speaks for the first class of its pair, rather than for the second.

    A region has the sum of its patches. Shape: (n, c, h, w) -> (n, rows, columns).
    """
    against = pairs[:, 1] if pairs.shape[1] > 1 else None
    maps = to_maps(relevance(model, images, pairs[:, 0], against, grid).float().cpu(), grid)
    return _shares(grid[0], regions[0]) @ maps @ _shares(grid[1], regions[1]).T


def _levels(maps: Tensor, examples: list[dict[str, Any]]) -> Tensor:
    """Maps as int8: a picture's largest is 127 or -127. Each example gets the size of its largest.

    Shape: (n, rows, columns), twice.
    """
    most = maps.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1e-12)
    for example, size in zip(examples, most.flatten().tolist(), strict=True):
        example["relevance"] = float(f"{size:.4g}")
    return (maps / most * 127).round().to(torch.int8)


def _token_names(prefix: int) -> list[str]:
    """The names of the tokens before the patches."""
    names = ["class token", *(f"extra token {i}" for i in range(1, prefix))]
    return names[:prefix]


def _model_weights(model: nn.Module) -> tuple[list[tuple[str, int, int]], str]:
    """Where each tensor stands, (name, start, end), and the script that holds the numbers."""
    places: list[tuple[str, int, int]] = []
    tensors: list[Tensor] = []
    start = 0
    for name, values in model.state_dict().items():
        end = start + values.numel()
        places.append((name, start, end))
        tensors.append(values.flatten())
        start = end
    return places, _script("weights", torch.cat(tensors))


def _stored_weights(
    model: nn.Module,
    images: Tensor,
    pictures: Tensor,
    examples: list[dict[str, Any]],
    grid: tuple[int, int],
) -> tuple[str, tuple[int, int]]:
    """The scripts that hold each picture's attention weights, and the grid of their maps.

    Each example gets the number of levels of its weights.
    """
    room = 4_990_000 - 4 * math.ceil(pictures[0].numel() / 3)
    scripts, regions = "", grid
    for i, example in enumerate(examples):
        weights = attention_weights(model, images[i : i + 1])[0].cpu()
        weights, regions = of_regions(weights, grid)
        packed, example["levels"] = pack(weights, room)
        scripts += f'<script id="attention-{i}" type="text/plain">{packed}</script>\n'
    return scripts, regions


def _matrix(found: Evaluation | None) -> dict[str, Any] | None:
    """The confusion matrix of the page; None if there is none, or if it has too many classes."""
    if found is None or len(found.classes) > 25:
        return None
    text = (
        f"{found.data}: {found.total - found.correct:,} of {found.total:,} misclassified. Rows:"
        " truth, columns: prediction. Click a number for its examples, as far as they are in"
        " this page"
    )
    return {"counts": found.matrix.tolist(), "text": text}


def _fill_page(title: str, data: dict[str, Any], stored: str) -> str:
    """``page.html`` with its gaps filled."""
    code = {
        "model": _part("model.js"),
        "script": "\n".join(_part(name) for name in SCRIPTS),
        "style": _part("style.css"),
    }
    digests = [_base64(hashlib.sha256(text.encode()).digest()) for text in code.values()]
    gaps = code | {
        "title": html.escape(title),
        "policy": POLICY.format(*(f"'sha256-{digest}'" for digest in digests)),
        "stored": stored,
        "data": json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda gap: gaps[gap[1]], _part("page.html"))


def _part(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _still(picture: Tensor, maps: Tensor) -> str:
    """A picture and its maps as two <img>: a row for a layer, a column for a head.

    One colour scale within a layer. Shape: (c, h, w) and (num_layers, num_heads, n_h, n_w).
    """
    low = maps.amin(dim=(1, 2, 3), keepdim=True)
    high = maps.amax(dim=(1, 2, 3), keepdim=True)
    levels = ((maps - low) / (high - low).clamp(min=1e-12) * 255).long()
    # (num_layers, num_heads, n_h, n_w, 3) -> (3, num_layers, n_h, num_heads, n_w)
    coloured = VIRIDIS[levels].permute(4, 0, 2, 1, 3)
    # A white line after each map; then (3, num_layers * n_h, num_heads * n_w), lines included
    apart = nn.functional.pad(coloured, (0, 1, 0, 0, 0, 1), value=255)
    all_maps = apart.flatten(3).flatten(1, 2)
    channels = 3 if len(picture) > 2 else 1
    return _image(picture[:channels]) + _image(all_maps)


def _image(pixels: Tensor) -> str:
    from torchvision.transforms.v2.functional import to_pil_image

    image = to_pil_image(pixels)
    image = image.resize((280, 280 * image.height // image.width), resample=0)  # 0 is nearest
    file = io.BytesIO()
    image.save(file, format="PNG")
    source = f"data:image/png;base64,{_base64(file.getvalue())}"
    return f'<img alt="picture, or maps of its heads" src="{source}"> '


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _script(name: str, numbers: Tensor) -> str:
    return f'<script id="{name}" type="text/plain">{_base64(numbers.numpy().tobytes())}</script>\n'
