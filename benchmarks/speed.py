"""How fast is it beside what a user would pick instead? Each figure is a ratio of two things run in
turn.

    python -m benchmarks speed                  # everything, about 6 minutes on a quiet machine
    python -m benchmarks speed model attention  # these sections only; the others keep their stored
    figures

Sections: model (training step and evaluation against torchvision's class, and how far the machine's
limit is), attention (maps against a plain forward), data (the loader against DataLoader and
transforms.v2), course (each notebook's outputs compared, on all cores), gpu (seconds to 99 %, where
there is one). One thread, unless said otherwise. Results go to benchmarks/results/speed.json, and
as a page to speed.md beside it. Two runs of the same code differ by up to 10 % on a shared machine:
look at lowest and highest too.
"""

import argparse
import copy
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import measure
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import VisionTransformer as TheirVisionTransformer
from torchvision.models import vit_b_16
from torchvision.transforms import v2

from mnist_vit.attention import attention_weights, record_attention
from mnist_vit.data import ImageData, Loader, load_embedded
from mnist_vit.fast import speed_up
from mnist_vit.model import vit_mnist
from mnist_vit.jobs import train

AUGMENTATION = {"degrees": 10.0, "scale": 0.1, "shift": 1.0}  # that of the recipe
Figure = dict[str, Any]


def figure(name: str, sides: str, measured: Figure) -> Figure:
    """A ratio with its name, and what is divided by what."""
    row = {"name": name, "sides": sides, **measured}
    print(
        f"{name}: {row['ratio']:.2f} ({row['lowest']:.2f} to {row['highest']:.2f}), {sides}",
        flush=True,
    )
    return row


# ---- model: training step and evaluation ----


def their_vit_mnist() -> nn.Module:
    """torchvision's class in the size of the course's model, its first convolution set to one
    channel."""
    model = TheirVisionTransformer(28, 2, 2, 2, 64, 256, num_classes=10, representation_size=32)
    model.conv_proj = nn.Conv2d(1, 64, 2, 2)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    return model


def training_step(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=0.0
    )  # the weights stay, so every round does the same

    def run() -> None:
        model.train()
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return run


def evaluation(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    @torch.no_grad()
    def run() -> Tensor:
        return model.eval()(images)

    return run


def check_equal(one: Tensor, other: Tensor) -> None:
    """Refuse to time two things that do not give the same."""
    difference, bound = (one - other).abs().max(), 1e-5 * max(1, one.abs().max())
    if difference > bound:
        raise SystemExit(
            f"the two models differ by {difference:.2e}, more than {bound:.2e}: nothing was timed"
        )


def model(rounds: int, tiny: bool) -> Figure:
    """Our class and the fast path against torchvision's class, and the limit of the machine."""
    theirs, readable = their_vit_mnist(), vit_mnist()
    readable.load_state_dict(theirs.state_dict())
    fast = speed_up(copy.deepcopy(readable))
    figures, seconds, peaks = [], {}, [matmul_peak(tiny)]
    for which, size, job in itertools.product(
        ("readable", "fast"), (256, 64), (training_step, evaluation)
    ):
        ours, n = {"readable": readable, "fast": fast}[which], 4 if tiny else size
        images, labels = torch.randn(n, 1, 28, 28), torch.randint(10, (n,))
        check_equal(evaluation(theirs, images, labels)(), evaluation(ours, images, labels)())
        measured = measure.compare(job(theirs, images, labels), job(ours, images, labels), rounds)
        name = f"{which}, {job.__name__.replace('_', ' ')}, batch {size}"
        figures.append(figure(name, "torchvision's class / ours", measured))
        seconds[which, job, size] = measured["seconds"][1] / n
        peaks.append(matmul_peak(tiny))

    theirs = TheirVisionTransformer(32, 8, 2, 2, 32, 64) if tiny else vit_b_16()
    nn.init.normal_(theirs.heads.head.weight, std=0.1)
    ours, images = (
        speed_up(copy.deepcopy(theirs)),
        torch.randn(2, 3, theirs.image_size, theirs.image_size),
    )
    slow, quick = evaluation(theirs, images, images), evaluation(ours, images, images)
    check_equal(slow(), quick())
    measured = measure.compare(slow, quick, rounds)
    figures.append(
        figure("fast, vit_b_16 forward, batch 2", "torchvision's class / ours", measured)
    )

    roofline = {"matmul_peak_gflops": round(max(peaks) / 1e9, 1), "rows": []}
    for which, ours in (("readable", readable), ("fast", fast)):
        for job in (evaluation, training_step):
            flops, needed = flops_per_image(ours, job), seconds[which, job, 256]
            row = {
                "model": which,
                "job": job.__name__.replace("_", " "),
                "mflop_per_image": round(flops / 1e6, 1),
            }
            row |= {
                "images_per_second": round(1 / needed),
                "share_of_peak": round(flops / needed / max(peaks), 3),
            }
            roofline["rows"].append(row | {"top_five": top_five(ours, job, 4 if tiny else 64)})
            print(
                f"{which}, {row['job']}: {row['mflop_per_image']} MFLOP per image,"
                f" {row['share_of_peak']:.0%} of the {roofline['matmul_peak_gflops']} GFLOP/s that"
                " a large matrix product reaches"
            )
    return {"figures": figures, "roofline": roofline}


def matmul_peak(tiny: bool) -> float:
    """Floating-point operations per second of a large float32 matrix product: the most that can be
    had."""
    n = 64 if tiny else 1024
    a, b, best = torch.randn(n, n), torch.randn(n, n), float("inf")
    for _ in range(6):
        start = time.process_time()
        a @ b
        best = min(best, time.process_time() - start)
    return 2 * n**3 / best


def flops_per_image(model: nn.Module, job: Callable) -> int:
    """Multiplications and additions in matrix products and convolutions, counted by PyTorch."""
    with (
        FlopCounterMode(display=False) as counter,
        sdpa_kernel(SDPBackend.MATH),
    ):  # it cannot see into other kernels
        if job is training_step:
            training_step(model, torch.randn(2, 1, 28, 28), torch.tensor([0, 1]))()
        else:
            model.train()(
                torch.randn(2, 1, 28, 28)
            )  # train mode: eval mode hides attention in one fused call
    return counter.get_total_flops() // 2


def top_five(model: nn.Module, job: Callable, n: int) -> list[str]:
    """The operators that took most of the time themselves, with their shares."""
    run = job(model, torch.randn(n, 1, 28, 28), torch.randint(10, (n,)))
    run()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True
    ) as profile:
        run()
    events = sorted(profile.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    return [f"{event.key} {event.self_cpu_time_total / total:.0%}" for event in events[:5]]


# ---- attention: maps of 1,000 digits ----


def attention(rounds: int, tiny: bool) -> Figure:
    """All weights, consumed batch by batch, against a plain forward and against a forward per
    layer, head and image."""
    model, digits = vit_mnist().eval(), load_embedded()
    few, count, size = (
        (2, 8, 4) if tiny else (8, 1000, 20)
    )  # the weights of 20 digits stay in the cache
    images = digits.normalise(digits.images[:: len(digits) // count][:count])

    @torch.no_grad()
    def forward() -> None:
        for batch in images.split(size):
            model(batch)

    @torch.no_grad()
    def weights() -> None:
        for batch in images.split(size):
            with record_attention(model) as record:
                model(batch)
            for layer in record:
                layer[:, :, 0].sum()  # consumed where they lie, then gone

    def in_one_tensor() -> None:
        for batch in images.split(size):
            attention_weights(model, batch)[:, :, :, 0].sum()

    def one_by_one() -> None:
        for image in images[:few]:
            for layer in range(2):
                for head in range(2):
                    attention_weights(model, image[None])[0, layer, head]

    same = measure.compare(weights, forward, rounds)
    copied = measure.compare(in_one_tensor, forward, rounds)
    apart = measure.compare(one_by_one, weights, rounds)
    for key in ("ratio", "lowest", "highest"):  # the slow side saw only a few images
        apart[key] = round(apart[key] * count / few, 2)
    apart["scaled"] = f"the slow side was run on {few} images and taken {count / few:g} times"
    megabytes = {kind: peak_memory(kind, count, size) for kind in ("all", "batches", "rows")}
    print(f"memory: {megabytes}")
    return {
        "figures": [
            figure("record_attention, 1,000 digits", "with weights / plain forward", same),
            figure("attention_weights, the same", "with weights / plain forward", copied),
            figure("one map at a time, the same", "a forward for each map / record", apart),
        ],
        "memory": {
            "what": "megabytes that the process grew by, at its largest",
            "all maps kept": megabytes["all"],
            "all maps, consumed batch by batch": megabytes["batches"],
            "rows of the class token kept (query=0)": megabytes["rows"],
        },
    }


PEAK = """
import torch
from mnist_vit import attention_weights, vit_mnist

def kilobytes(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))

torch.set_num_threads(1)
model, images = vit_mnist(), torch.randn({count}, 1, 28, 28)
attention_weights(model, images[:2])
before = kilobytes("VmRSS")
if "{kind}" == "batches":
    for batch in images.split({size}):
        attention_weights(model, batch)
else:
    attention_weights(model, images, query=0 if "{kind}" == "rows" else None, batch_size={size})
print((kilobytes("VmHWM") - before) // 1024)
"""


def peak_memory(kind: str, count: int, size: int) -> int | None:
    """Megabytes that a fresh process needs at most for its maps; None where it cannot be asked
    (Windows, macOS)."""
    if sys.platform != "linux":
        return None
    command = [sys.executable, "-c", PEAK.format(kind=kind, count=count, size=size)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


# ---- data: images per second ----


class PerImage(Dataset):
    """What torchvision.datasets.MNIST does: a Pillow image is made and transformed, one at a
    time."""

    def __init__(self, data: ImageData, transform: Callable) -> None:
        self.images, self.labels, self.transform = (
            data.images[:, 0].numpy(),
            data.labels.tolist(),
            transform,
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


TRANSFORM = v2.Compose(
    [
        v2.RandomAffine(
            10,
            translate=(1 / 28, 1 / 28),
            scale=(0.9, 1.1),
            interpolation=v2.InterpolationMode.BILINEAR,
        ),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.1307,), (0.3081,)),
    ]
)


def data(rounds: int, tiny: bool) -> Figure:
    """One pass over the same digits, turned, stretched, moved and normalised, in batches of 256."""
    digits = load_embedded()
    if tiny:
        digits = digits.select(torch.arange(0, len(digits), 100), "fifty digits")
    loader = Loader(digits, 256, shuffle=True, augmentation=AUGMENTATION)

    def one_pass(batches: Any) -> None:
        for _ in batches:
            pass

    figures = []
    for workers in (0,) if tiny else (0, 2):
        usual = DataLoader(
            PerImage(digits, TRANSFORM),
            min(256, len(digits)),
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            persistent_workers=workers > 0,
            multiprocessing_context="spawn" if workers else None,
        )
        # processor seconds leave the workers out
        clock = time.perf_counter if workers else time.process_time
        measured = measure.compare(
            partial(one_pass, usual), partial(one_pass, loader), rounds, clock
        )
        measured["images_per_second"] = [
            round(len(loader) * loader.batch_size / s) for s in measured["seconds"]
        ]
        figures.append(
            figure(
                f"images with {workers} workers", "DataLoader and transforms.v2 / ours", measured
            )
        )
    return {"figures": figures}


# ---- the course itself ----


def course(rounds: int, tiny: bool) -> Figure:
    """Seconds that it takes to run a notebook and compare its outputs, in a process of its own, its
    start included."""
    root = measure.RESULTS.parents[1]
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    free = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    seconds: dict[str, float] = {}
    for path in paths[:1] if tiny else paths:
        start = time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=root, env=free)
        seconds[path.stem] = round(time.perf_counter() - start, 1)
        print(f"{path.stem}: {seconds[path.stem]} s", flush=True)
    machine = measure.machine() | {"threads": os.cpu_count()}
    return {
        "figures": [],
        "machine": machine,
        "seconds": {"all": round(sum(seconds.values()), 1), **seconds},
    }


# ---- a GPU, where there is one ----


def gpu(rounds: int, tiny: bool) -> Figure:
    """Seconds to 99 % validation, data loading and validation included; rounds are not used: one
    run.

    Batches are large, because a step costs the same launches. On a CPU this recipe passes 99 % in
    epoch 22 of 30: ``python -m mnist_vit train vit_mnist_p4 --data mnist --epochs 30 --batch-size
    256 --learning-rate 4e-3 --average 0.996 --position-start sincos``.
    """
    if not torch.cuda.is_available():
        print("gpu: there is no CUDA device here, so nothing was measured")
        return {"figures": [], "note": "no CUDA device"}
    recipe = {
        "epochs": 30,
        "batch_size": 256,
        "learning_rate": 4e-3,
        "average": 0.996,
        "position_start": "sincos",
    }
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        history = train("vit_mnist_p4", "embedded" if tiny else "mnist", run_dir=folder, **recipe)
    around = time.perf_counter() - start - sum(row["seconds"] for row in history)
    passed = next((i for i, row in enumerate(history) if row["validation_accuracy"] >= 0.99), None)
    seconds = (
        None if passed is None else around + sum(row["seconds"] for row in history[: passed + 1])
    )
    best = max(row["validation_accuracy"] for row in history)
    print(
        f"gpu: best {best:.2%}, "
        + ("99 % not reached" if seconds is None else f"99 % after {seconds:.1f} seconds")
    )
    return {"figures": [], "recipe": recipe, "seconds_to_99": seconds, "history": history}


SECTIONS = {"model": model, "attention": attention, "data": data, "course": course, "gpu": gpu}


def page(results: Figure) -> str:
    """The stored results as Markdown."""
    text = (
        "# Speed\n\nMade by `python -m benchmarks speed`; a figure is the median of the rounds"
        " (lowest to highest).\n"
    )
    for name, section in results.items():
        where = section["machine"]
        text += (
            f"\n## {name}\n\n{where['processor']}, {where['threads']} of {where['cores']} cores,"
            " load "
        )
        text += (
            f"{where['load']}, torch {where['torch']}, torchvision {where['torchvision']},"
            f" {where['date']}.\n"
        )
        if section["figures"]:
            rows = (
                (
                    f["name"],
                    f["sides"],
                    f"**{f['ratio']:.2f}** ({f['lowest']:.2f} to {f['highest']:.2f})",
                )
                for f in section["figures"]
            )
            text += "\n" + measure.table(("figure", "what by what", "measured"), rows)
        if "roofline" in section:
            text += (
                f"\nA large matrix product reached {section['roofline']['matmul_peak_gflops']}"
                " GFLOP/s.\n\n"
            )
            rows = (
                (
                    r["model"],
                    r["job"],
                    r["mflop_per_image"],
                    r["images_per_second"],
                    f"{r['share_of_peak']:.0%}",
                    ", ".join(r["top_five"]),
                )
                for r in section["roofline"]["rows"]
            )
            heads = (
                "model",
                "job",
                "MFLOP per image",
                "images per second",
                "share of that",
                "top five operators",
            )
            text += measure.table(heads, rows)
        for key, value in section.get("memory", {}).items():
            text += f"\nMemory, {value}:\n\n" if key == "what" else f"- {key}: {value}\n"
        if "seconds" in section:
            text += "\n" + measure.table(("notebook", "seconds"), section["seconds"].items())
        if "note" in section or "seconds_to_99" in section:
            text += f"\n{section.get('note') or section['seconds_to_99']}.\n"
    return text


def main(arguments: list[str] | None = None) -> None:
    """Measure the sections asked for and store them beside the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"{', '.join(SECTIONS)}; left out: all"
    )
    parser.add_argument(
        "--rounds", type=int, default=7, help="how often each pair is run (default 7)"
    )
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="as small as can be, to try the script; figures mean nothing",
    )
    parser.add_argument(
        "--out", type=Path, default=measure.RESULTS / "speed.json", help="file of results"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(
            f"there is no section {', '.join(sorted(unknown))}: name some of {', '.join(SECTIONS)}"
        )
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = measure.read(options.out)
    for name in options.sections or SECTIONS:
        section = SECTIONS[name](options.rounds, options.tiny)
        command = (
            f"python -m benchmarks speed {name} --rounds {options.rounds}"
            + " --tiny" * options.tiny
        )
        results[name] = {"command": command, "machine": measure.machine(), **section}
        measure.write(options.out, results, page(results))


if __name__ == "__main__":
    main()
