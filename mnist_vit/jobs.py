"""Whole jobs in one call: load data and weights, compute, write results.

These are the calls of the notebooks and of the command line. Their arguments, with types, defaults
and a sentence each, are the fields of the dataclasses in ``commands`` and ``recipe``.
"""

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .attention import attention_weights, sides, to_maps
from .commands import Attention, Demo, Evaluate, Explore, Predict, Shown, Train
from .console import progress, say
from .data import (
    ImageData,
    Loader,
    check_fit,
    load_for,
    load_transformed,
    normalise,
    warn_of,
)
from .datasets import DATA_SETS
from .devices import choose_threads, find_device, place, restoring_threads, start_processes
from .errors import printable
from .evaluation import Evaluation, History, evaluate_model
from .explorer import Beside, Page, check_place, evenly, write_page
from .fast import speed_up
from .files import copy_notebooks, make_folder, out_dir, user_path
from .forward import has_class_head, images_at_once, try_once
from .gallery import INDEX, SMALLEST, folder_name, replacing, save_attention_images
from .options import taking
from .pictures import digit_to_tensor, open_picture, picture_form, transformed
from .recipe import MODELS
from .starting import Forecast, Start
from .tokens import patch_grid
from .training import fit, sincos_positions
from .weights import (
    about_of,
    describe_enum,
    load_model,
    load_weights,
    read_json,
    save_weights,
    update_about,
    weights_path,
)

__all__ = [
    "MODELS",
    "copy_notebooks",
    "demo",
    "evaluate",
    "explore",
    "predict",
    "train",
    "visualize_attention",
]


@taking(Train)
@restoring_threads
def train(given: Train) -> History:
    """Returns one dict per epoch, see ``training.fit``.

    The model then holds the averaged weights and a new ``about``.
    """
    save = None if given.save is None else weights_path(given.save)
    rank, processes = start_processes()
    start = Start(given)
    model = start.model
    recipe = start.recipe
    choose_threads(model)
    train_data = start.train_data
    first = train_data.normalise(train_data.images[:2]).to(**place(model))
    try_once(model, first, len(train_data.classes))
    if recipe.position_start == "sincos":
        sincos_positions(model)
    fast: Any = speed_up(model, recipe.keep_patches)
    train_loader = Loader(
        train_data,
        recipe.batch_size,
        shuffle=True,
        augmentation=recipe.augmentation,
        seed=recipe.seed,
        rank=rank,
        world_size=processes,
        **place(model),
    )
    validation_loader = Loader(start.validation_data, images_at_once(model), **place(model))
    folder = _run_folder(given.run_dir, start.name)
    if rank == 0:
        if save is not None:
            make_folder(save.parent)
        for line in start.lines(len(train_loader)):
            say(line)
        say(f"run folder {folder}")
    about: Any = {
        "name": start.name,
        "data": train_data.about(),
        "trained_on": _all_trained_on(model, train_data),
        "recipe": recipe.stored(),
    }
    batches: Any = train_loader
    if rank == 0:
        patches = getattr(fast, "num_patches", None)
        batches = Forecast(train_loader, recipe, patches, len(start.validation_data))

    def before_epoch(epoch: int) -> None:
        fast.keep_patches = recipe.patches_in(epoch)
        model.about = about  # now, so that it is known also if training is stopped half way

    steps = recipe.epochs * len(train_loader)
    what = {"model": start.name, "data": train_data.name, "data_sha256": train_data.sha256()}
    history = fit(
        fast,
        batches,
        validation_loader,
        recipe=replace(recipe, average=recipe.average_over(steps)),
        before_epoch=before_epoch,
        run_dir=folder,
        checkpoint_every=given.checkpoint_every,
        resume=given.resume,
        tensorboard=given.tensorboard,
        config=what | recipe.stored(),
    )
    if isinstance(given.model, str) and isinstance(start.data, str | Path):
        about["command"] = start.command()
    model.about = about | _outcome(history, start.validation_data, recipe.seed)
    if rank == 0:
        written = save_weights(model, folder / "weights.pth")
        if save is not None:
            written = save_weights(model, save)
        say(f"validation accuracy {history[-1]['validation_accuracy']:.2%}")
        say(f"weights saved to {written}; next: {start.next_step(written)}")
    return History(history)


def _run_folder(given: str | Path | None, name: str) -> Path:
    """The folder of a run; default: a new one with the time in its name."""
    if given is not None:
        return user_path(given)
    return out_dir("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _all_trained_on(model: nn.Module, data: ImageData) -> list[str]:
    """The data sets that the model was trained on before, and this one."""
    before = about_of(model).get("trained_on", [])
    return list(dict.fromkeys([*before, data.source or data.name]))


def _outcome(history: list[dict[str, float]], validation: ImageData, seed: int) -> dict[str, Any]:
    """What is stored of a training with its weights."""
    accuracy = history[-1]["validation_accuracy"]
    rows = [{key: round(value, 5) for key, value in row.items()} for row in history]
    return {
        "metrics": {"validation": {"on": validation.name, "accuracy": accuracy}},
        "seed": seed,
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(sum(row["seconds"] for row in history)),
        "cpu_seconds": round(sum(row.get("cpu_seconds", 0) for row in history)),
        "threads": torch.get_num_threads(),
        "history": rows,
    }


@taking(Evaluate)
@restoring_threads
def evaluate(given: Evaluate) -> Evaluation:
    """Returns predictions, probabilities and the confusion matrix."""
    file = _weights_file(given)
    if given.record and (file is None or str(file).endswith(".py")):
        raise ValueError(
            "record needs weights by name or file, to write into the .json beside them"
        )
    model, about = _get_ready(given)
    own = getattr(model, "made_of", None)
    if own:
        held = "vit_mnist (shipped)" if str(file).endswith(".py") else file or "it holds"
        print(f"MyVisionTransformer of {own['code']}, with the weights {held}")
    images = load_for(model, about, given.data, given.split, given.root)
    check_fit(model, images)
    warn_of(about, images)
    first = images.normalise(images.images[:1]).to(**place(model))
    try_once(model, first, len(images.classes))
    loader = Loader(images, given.batch_size or images_at_once(model), **place(model))
    result = evaluate_model(speed_up(model), loader, images.classes, images.name)
    print(result)
    if given.record:
        part = "embedded" if given.data == "embedded" else images.source.rpartition("/")[2]
        metrics = about.get("metrics", {}) | {part: _entry(result)}
        print(f"recorded in {update_about(str(file), metrics=metrics)}")
    return result


def _weights_file(given: Evaluate) -> str | Path | None:
    """Name or file of the weights that are evaluated; None if the model holds them."""
    for one in (given.weights, given.model):
        if isinstance(one, str | Path):
            return one
    return None


def _entry(result: Evaluation) -> dict[str, Any]:
    """An accuracy as it is stored with weights."""
    low, high = result.interval
    return {
        "on": result.data,
        "accuracy": result.accuracy,
        "correct": result.correct,
        "total": result.total,
        "interval": [round(low, 6), round(high, 6)],
    }


@taking(Attention)
@restoring_threads
def visualize_attention(given: Attention) -> Page:
    """Returns the page, which a notebook shows."""
    return _write_maps(_Subject(given), given)


@taking(Explore)
@restoring_threads
def explore(given: Explore) -> Page:
    """Returns the page, which a notebook shows."""
    path = out_dir("runs/explore.html", given.out)
    check_place(path)
    subject = _Subject(given)
    found = subject.evaluated(given.batch_size)
    shown = subject.for_the_page(subject.of_each_class(given.per_class), found, given.per_class)
    return subject.write_page(path, shown, found)


@taking(Demo)
@restoring_threads
def demo(given: Demo) -> Page:
    """Returns the page; the accuracy is printed."""
    about = read_json("vit_mnist")
    print(f"vit_mnist: {about['parameters']:,} parameters, trained on {about['data']['name']}\n")
    found = evaluate("vit_mnist")
    print()
    maps = Attention(out=given.out)
    return _write_maps(_Subject(maps), maps, found, _Subject(Attention("vit_mnist_p7")))


def shown_data(about: dict[str, Any]) -> str:
    """The images that are shown if none are given: those the model was trained on.

    Of MNIST, and for a model that says nothing of it, the embedded digits.
    """
    source = about.get("data", {}).get("source", "").rpartition("/")[0]
    if source in DATA_SETS and source != "mnist":
        return source
    return "embedded"


class _Subject:
    """A model that can be looked into, and the images that are shown with it.

    Attributes:
        model, about: the model and its description.
        images: the pictures; ``ready`` has what the model takes instead, if the user's transform
            made it, (c, h, w) each.
        classes: the model's; none if it has no class head.
        labelled: whether the images have the same classes, so that their labels are the truth.
    """

    def __init__(self, given: Shown) -> None:
        self.model, self.about = _get_ready(given, given.classes)
        self.ready: list[Tensor] = []
        data = shown_data(self.about) if given.data is None else given.data
        if given.transform is None:
            self.images = load_for(self.model, self.about, data, given.split, given.root)
        else:
            self.images, self.ready = load_transformed(
                self.model, self.about, data, given.split, given.transform
            )
        trained_on = self.about.get("data", {})
        self.classes = tuple(trained_on.get("classes", self.images.classes))
        if getattr(self.model, "num_classes", None) == 0:
            self.classes = ()
        self.labelled = self.classes == self.images.classes
        check_fit(self.model, self.images, self.labelled)
        if given.transform is None:
            warn_of(self.about, self.images)
        # One image, thrown away: errors come before a folder is made.
        first = self.prepared(torch.tensor([0]))
        if given.classes is None and not has_class_head(self.model, first):
            self.classes = ()
            self.labelled = False
        else:
            try_once(self.model, first, len(self.classes))
        rows = attention_weights(self.model, first, query=0)
        self.grid = patch_grid(self.model, first) if given.grid is None else sides(given.grid)
        to_maps(rows, self.grid)

    def prepared(self, some: Tensor) -> Tensor:
        """A batch for the model."""
        if self.ready:
            batch = torch.stack([self.ready[i] for i in some])
        else:
            batch = self.images.normalise(self.images.images[some])
        return batch.to(**place(self.model))

    def described(self, some: Tensor) -> tuple[Tensor, list[str], list[int] | None]:
        """Pixels, names and labels of some images; no labels if they are not the model's."""
        names = []
        for i in some.tolist():
            name = f"{self.images.classes[self.images.labels[i]]}_{i}"
            names.append(folder_name(name))
        labels = self.images.labels[some].tolist() if self.labelled else None
        return self.images.images[some], names, labels

    def evaluated(self, batch_size: int) -> Evaluation | None:
        """The predictions of all images; None if there are no labels, or only what is shown."""
        if not self.labelled or self.ready:
            return None
        loader = Loader(self.images, batch_size, **place(self.model))
        return evaluate_model(speed_up(self.model), loader, self.classes, self.images.name)

    def of_each_class(self, per_class: int) -> Tensor:
        """Indices of the first images of each class."""
        return torch.cat([some[:per_class] for some in self._indices()])

    def _indices(self) -> list[Tensor]:
        count = len(self.images.classes)
        return [(self.images.labels == label).nonzero()[:, 0] for label in range(count)]

    def for_the_page(self, chosen: Tensor, found: Evaluation | None, per_class: int) -> Tensor:
        """The chosen images, the least sure ones of each class and misclassified ones."""
        shown = chosen
        if found is not None:
            sure = found.probabilities[range(found.total), found.labels]
            count = max(per_class, 8)
            hard = [some[sure[some].argsort()[:count]] for some in self._indices()]
            wrong = (found.predictions != found.labels).nonzero()[:, 0]
            shown = torch.cat([chosen, *hard, wrong[evenly(len(wrong), 400)]]).unique()
        return shown[evenly(len(shown))]

    def beside(self, other: "_Subject", file: str, first: bool) -> Beside:
        """What the page of this model says of the other's, which is written to ``file``."""
        patches = math.prod(other.grid)
        tokens = attention_weights(other.model, other.prepared(torch.tensor([0]))).shape[-1]
        name = other.about["name"]
        return Beside(file, name, tokens, patches, first, own=self.about["name"])

    def write_page(
        self,
        path: Path,
        shown: Tensor,
        found: Evaluation | None,
        beside: Beside | None = None,
    ) -> Page:
        """Write the live page with these images."""
        size = self.images.images.shape[1:]
        recipe = self.about.get("recipe") or {}
        return write_page(
            path,
            self.model,
            self.prepared(shown),
            *self.described(shown),
            title=f"Inside {self.about['name']}",
            text=self.images.name,
            classes=self.classes,
            mean=None if self.ready else self.images.mean,
            std=self.images.std,
            grid=self.grid,
            digits=self.classes == DATA_SETS["mnist"].classes and size == (1, 28, 28),
            found=found,
            beside=beside,
            smoothing=recipe.get("label_smoothing"),
        )


def _write_maps(
    subject: _Subject,
    given: Attention,
    found: Evaluation | None = None,
    smallest: _Subject | None = None,
) -> Page:
    """Write a folder for each image, and a page to browse them.

    The smallest model, if there is one, gets a page of the same images, in which the tour begins.
    """
    chosen = subject.of_each_class(given.per_class)
    shown = subject.for_the_page(chosen, found, given.per_class)
    folder = out_dir("runs/attention", given.out)
    with replacing(folder) as new:
        for some in progress(chosen.split(given.batch_size), desc="drawing", unit=" batches"):
            pictures, names, labels = subject.described(some)
            save_attention_images(
                subject.model,
                subject.prepared(some),
                pictures,
                names,
                new,
                subject.classes,
                labels,
                subject.grid,
            )
        beside = None
        if smallest is not None:
            larger = smallest.beside(subject, INDEX, first=False)
            smallest.write_page(new / SMALLEST, chosen, None, larger)
            beside = subject.beside(smallest, SMALLEST, first=True)
        written = subject.write_page(new / INDEX, shown, found, beside)
    page = Page(folder / INDEX)
    page.instead = written.instead
    print(f"attention maps of {len(chosen)} images, one folder each: {folder}")
    return page


@taking(Predict)
@restoring_threads
def predict(given: Predict) -> Tensor:
    """Returns the probability of each class, (k,)."""
    model, about = _get_ready(given, given.classes)
    data = about.get("data", {})
    classes = tuple(data.get("classes", ()))
    ready, pixels = _prepared_picture(given, model, about)
    logits = try_once(model, ready.to(**place(model)), len(classes))
    probabilities = logits[0].float().softmax(dim=0).cpu()
    folder = out_dir("runs/predictions", given.out)
    target = folder_name(Path(given.picture).stem)
    (result,) = save_attention_images(
        model, ready, pixels, [target], folder, classes, grid=given.grid
    )
    print(f"{printable(str(given.picture))}: {result['prediction']}")
    for i in probabilities.argsort(descending=True, stable=True)[:5].tolist():
        bar = "#" * round(40 * float(probabilities[i]))
        print(f"  {classes[i]}: {probabilities[i]:6.1%} {bar}")
    print(f"attention maps: {folder / printable(target)}")
    return probabilities


def _prepared_picture(
    given: Predict, model: nn.Module, about: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """A picture file as the model takes it, and as pixels, (1, c, h, w) both."""
    opened = open_picture(given.picture)
    data = about.get("data", {})
    if given.transform is not None and data.get("classes"):
        ready, pixels = transformed(opened, given.transform)
        return ready[None], pixels[None]
    form = picture_form(model, about)
    of_mnist = tuple(data["classes"]) == DATA_SETS["mnist"].classes
    if of_mnist and form.keywords == {"image_size": 28, "channels": 1}:
        pixels = digit_to_tensor(opened)[None]
    else:
        pixels = form(opened)[None]
    return normalise(pixels, data["mean"], data["std"]), pixels


def _get_ready(
    given: Evaluate | Shown | Predict, classes: Any = None
) -> tuple[nn.Module, dict[str, Any]]:
    """The model, given or built from weights by name or file, and its description."""
    model: Any = given.model
    weights = given.weights
    if not isinstance(model, nn.Module | str | Path):
        raise TypeError(
            f"model must be an nn.Module, or weights by name or file, got {type(model).__name__}"
        )
    is_enum = hasattr(weights, "transforms") and hasattr(weights, "meta")
    if not isinstance(model, nn.Module):
        model = load_model(model, weights=None if is_enum else weights)
        model = model.to(find_device(given.device))
    elif is_enum:  # it describes what the model holds; nothing is loaded
        model.about = describe_enum(weights)
    elif weights is not None:
        load_weights(model, weights)
    choose_threads(model)
    about = {"name": type(model).__name__} | about_of(model)
    if classes is not None:
        about = about | {"data": about.get("data", {}) | {"classes": list(classes)}}
    return model, about
