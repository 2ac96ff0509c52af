"""Put the README's figures there, from the .json files of weights and benchmarks: ``python
benchmarks/figures.py``.

``--check`` only says whether the README is up to date.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import measure

from mnist_vit.files import write_text
from mnist_vit.jobs import MODELS
from mnist_vit.weights import read_json

ROOT = measure.RESULTS.parent.parent
README = ROOT / "README.md"
PLACE = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- /figures -->)", re.DOTALL)
SPLITS = {
    "embedded": "5,000 held-out digits",
    "validation": "validation images",
    "test": "test images",
}


def weights(name: str) -> Iterator[tuple[str, str, str]]:
    """The rows of one weights file."""
    about = read_json(name)
    metrics, digits = about["metrics"], "embedded" in about["metrics"]
    patches = (about["config"]["image_size"] // about["config"]["patch_size"]) ** 2
    what = f"`{name}`: {about['parameters']:,} parameters, {patches} patches"
    held_out = "embedded" if digits else "validation"
    said = f"{metrics[held_out]['accuracy']:.{digits + 1}%} of the {SPLITS[held_out]}"
    if "test" in metrics:
        low, high = metrics["test"]["interval"]
        share = (
            f"{metrics['test']['accuracy']:.{digits + 1}%} ({low:.{digits + 1}%} to"
            f" {high:.{digits + 1}%})"
        )
        some = (
            "the 10,000"
            if metrics["test"]["total"] == 10_000
            else f"{metrics['test']['total']:,} of the 10,000"
        )
        said = f"**{share}** of {some} test images; {said}"
    source = about["data"]["source"].rpartition("/")[0]
    yield what, said, f"`mnist-vit evaluate {name}{'' if digits else f' --data {source}'}`"
    yield "– its training", f"{about['cpu_seconds'] / 60:.0f} CPU minutes", f"`{about['command']}`"
    others = {
        number: seed
        for number, seed in about.get("seeds", {}).items()
        if int(number) != about["seed"]
    }
    if others:
        parts = (("test", "of the same test images"), ("validation", f"of the {SPLITS[held_out]}"))
        said = "; ".join(
            f"{' and '.join(f'{seed[part]:.{digits + 1}%}' for seed in others.values())} {of}"
            for part, of in parts
        )
        yield (
            "– the same with other seeds",
            said,
            f"`python -m benchmarks seeds {name} {' '.join(others)}`",
        )


def rows() -> Iterator[tuple[str, str, str]]:
    """All figures: what, how much, and the command."""
    for name in MODELS:
        yield from weights(name)
    for name, kind in (("cnn", "a small convolutional network"), ("mlp", "an MLP")):
        rival = measure.read(ROOT / "notebooks" / "results" / f"{name}.json")
        accuracy = rival["metrics"]["validation"]["accuracy"]
        said = (
            f"{accuracy:.2%} of the {SPLITS['embedded']}, after {rival['cpu_seconds'] / 60:.0f} CPU"
            " minutes"
        )
        yield (
            f"to compare: {kind}, {rival['parameters']:,} parameters",
            said,
            f"`{rival['command']}`",
        )
    race = measure.read(measure.RESULTS / "time_to_accuracy.json")
    for side in ("ours", "ours_98"):
        ours = race[side]
        said = (
            f"{ours['accuracy']:.2%} of the {SPLITS['embedded']}, after"
            f" {ours['cpu_seconds']:,.0f} s"
        )
        yield f"`vit_mnist` in {ours['recipe']['epochs']} epochs", said, f"`{ours['command']}`"
    usual, plain = "– to compare: Adam, batches of 256, images prepared one by one", race["plain"]
    yield (
        usual,
        f"{plain['accuracy']:.2%} after {plain['cpu_seconds']:,.0f} s",
        f"`{plain['command']}`",
    )
    speed = measure.read(measure.RESULTS / "speed.json")
    ratio = {one["name"]: one["ratio"] for section in speed.values() for one in section["figures"]}
    for what, name, section in (
        ("`VisionTransformer`, training step", "readable, training step, batch 256", "model"),
        ("– evaluation", "readable, evaluation, batch 256", "model"),
        (
            "the fast path that `train` and `evaluate` use, training step",
            "fast, training step, batch 256",
            "model",
        ),
        ("– evaluation", "fast, evaluation, batch 256", "model"),
    ):
        yield (
            what,
            f"{ratio[name]:.2f} times the speed of torchvision's class",
            f"`python -m benchmarks speed {section}`",
        )
    images = (
        f"{ratio['images with 0 workers']:.0f} times the speed of `DataLoader` and `transforms.v2`"
    )
    yield "augmented batches of images", images, "`python -m benchmarks speed data`"
    two = measure.read(measure.RESULTS / "processes.json")
    yield (
        "two training processes",
        f"{two['ratio']:.2f} times the speed of one",
        f"`{two['command']}`",
    )
    yield from door()


def door() -> Iterator[tuple[str, str, str]]:
    """What a new user waits for."""
    results = measure.read(measure.RESULTS / "door.json")
    quick, install = results["quick"], results["install"]
    seconds = quick["seconds"]
    said = (
        f"{seconds['help']:.1f} s; `import mnist_vit` {seconds['import_mnist_vit']:.2f} s; with"
        " PyTorch, on first use, "
    )
    yield "`mnist-vit --help`", f"{said}{seconds['import_jobs']:.1f} s", f"`{quick['command']}`"
    full, cpu = (f"{install[key] / 1000:.1f} GB" for key in ("venv", "venv_cpu"))
    said = (
        f"wheel {quick['wheel']:.0f} MB, clone {install['clone']:.0f} MB, download"
        f" {install['download'] / 1000:.1f} GB"
    )
    yield (
        "sizes",
        f"{said}, `.venv` {full}; with the CPU build {cpu} (computed)",
        f"`{install['command']}`",
    )
    said = (
        f"demo after {install['seconds_to_demo']} s, a first trained model after"
        f" {install['seconds_to_model']} s"
    )
    yield (
        (
            "from a fresh clone, nothing cached, load average of the machine"
            f" {install['machine']['load']:.0f}"
        ),
        said,
        f"`{install['command']}`",
    )


def block() -> str:
    """The README's table."""
    return measure.table(("what", "figure", "command"), rows())


def main(arguments: list[str] | None = None) -> None:
    """Write the table, or say whether it is up to date."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit code 1 if the README is out of date",
    )
    parser.add_argument("--readme", type=Path, default=README, help="the file to write to")
    options = parser.parse_args(arguments)
    text = options.readme.read_text(encoding="utf-8")
    fresh = PLACE.sub(lambda _: block(), text)
    if options.check:
        sys.exit("out of date: python -m tools figures" if fresh != text else 0)
    write_text(options.readme, fresh)


if __name__ == "__main__":
    main()
