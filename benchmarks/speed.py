"""How fast is it beside what a user would pick instead? Ratios of two things run in turn.

    python -m benchmarks speed all              # about 6 minutes on a quiet machine
    python -m benchmarks speed model attention  # these sections only

Sections: model (training step and evaluation against torchvision's class, and how far the machine's
limit is), attention (maps against a plain forward), data (the loader against DataLoader and
transforms.v2), course (each notebook's outputs compared, on all cores), gpu (seconds to 99 %, where
there is one). One thread, unless said otherwise. Two runs of the same code differ by up to 10 % on
a shared machine: look at lowest and highest too.
"""

import copy
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import VisionTransformer as TheirVisionTransformer
from torchvision.models import vit_b_16
from torchvision.transforms import v2

from benchmarks.timing import compare
from mnist_vit.attention import attention_weights, record_attention
from mnist_vit.data import ImageData, Loader, load_embedded
from mnist_vit.datasets import MNIST_MEAN, MNIST_STD
from mnist_vit.fast import speed_up
from mnist_vit.jobs import train
from mnist_vit.model import vit_mnist
from tools import ROOT, notebooks
from tools.runner import machine, table

FILE = ROOT / "benchmarks" / "results" / "speed.json"
AUGMENTATION = {"degrees": 10.0, "scale": 0.1, "shift": 1.0}  # that of the recipe
Figure = dict[str, Any]


def run(section: str, rounds: int = 7, tiny: bool = False) -> Figure:
    """Measure one section.

    ``rounds`` is how often each pair is run. ``tiny`` is as small as can be, to try the script;
    its figures mean nothing.
    """
    torch.manual_seed(0)
    return SECTIONS[section](rounds, tiny)


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
    """Return torchvision's class in the size of the course's model, for one channel."""
    model = TheirVisionTransformer(28, 2, 2, 2, 64, 256, num_classes=10, representation_size=32)
    model.conv_proj = nn.Conv2d(1, 64, 2, 2)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    return model


def training_step(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], None]:
    # The weights stay, so every round does the same.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)

    def step() -> None:
        model.train()
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def evaluation(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    @torch.no_grad()
    def evaluate() -> Tensor:
        return model.eval()(images)

    return evaluate


def check_equal(one: Tensor, other: Tensor) -> None:
    """Refuse to time two models with different logits."""
    difference = (one - other).abs().max()
    bound = 1e-5 * max(1, one.abs().max())
    if difference > bound:
        sys.exit(f"the two models differ by {difference:.2e}, more than {bound:.2e}")


def model(rounds: int, tiny: bool) -> Figure:
    """Our class and the fast path against torchvision's class, and the limit of the machine."""
    theirs = their_vit_mnist()
    readable = vit_mnist()
    readable.load_state_dict(theirs.state_dict())
    ours = {"readable": readable, "fast": speed_up(copy.deepcopy(readable))}
    figures = []
    seconds = {}
    peaks = [matmul_peak(tiny)]
    for which, size, job in itertools.product(ours, (256, 64), (training_step, evaluation)):
        n = 4 if tiny else size
        measured = against_theirs(theirs, ours[which], job, n, rounds)
        name = f"{which}, {job.__name__.replace('_', ' ')}, batch {size}"
        figures.append(figure(name, "torchvision's class / ours", measured))
        seconds[which, job, size] = measured["seconds"][1] / n
        peaks.append(matmul_peak(tiny))
    figures.append(vit_b_16_forward(rounds, tiny))

    rows = []
    for which, job in itertools.product(ours, (evaluation, training_step)):
        row = {"model": which, "job": job.__name__.replace("_", " ")}
        row |= share_of_peak(ours[which], job, seconds[which, job, 256], max(peaks))
        row["top_five"] = top_five(ours[which], job, 4 if tiny else 64)
        rows.append(row)
    roofline = {"matmul_peak_gflops": round(max(peaks) / 1e9, 1), "rows": rows}
    return {"figures": figures, "roofline": roofline}


def against_theirs(
    theirs: nn.Module, ours: nn.Module, job: Callable, n: int, rounds: int
) -> Figure:
    """Compare two models in one job, with a batch of n images."""
    images, labels = torch.randn(n, 1, 28, 28), torch.randint(10, (n,))
    check_equal(evaluation(theirs, images, labels)(), evaluation(ours, images, labels)())
    return compare(job(theirs, images, labels), job(ours, images, labels), rounds)


def vit_b_16_forward(rounds: int, tiny: bool) -> Figure:
    """Compare the fast path with torchvision's largest class that fits here."""
    theirs = TheirVisionTransformer(32, 8, 2, 2, 32, 64) if tiny else vit_b_16()
    nn.init.normal_(theirs.heads.head.weight, std=0.1)
    ours = speed_up(copy.deepcopy(theirs))
    images = torch.randn(2, 3, theirs.image_size, theirs.image_size)
    slow, quick = evaluation(theirs, images, images), evaluation(ours, images, images)
    check_equal(slow(), quick())
    measured = compare(slow, quick, rounds)
    return figure("fast, vit_b_16 forward, batch 2", "torchvision's class / ours", measured)


def share_of_peak(model: nn.Module, job: Callable, seconds: float, peak: float) -> Figure:
    """Return how much of the machine's matrix products per second a job reaches."""
    flops = flops_per_image(model, job)
    return {
        "mflop_per_image": round(flops / 1e6, 1),
        "images_per_second": round(1 / seconds),
        "share_of_peak": round(flops / seconds / peak, 3),
    }


def matmul_peak(tiny: bool) -> float:
    """Return the floating-point operations per second of a large float32 matrix product."""
    n = 64 if tiny else 1024
    a, b = torch.randn(n, n), torch.randn(n, n)
    best = float("inf")
    for _ in range(6):
        start = time.process_time()
        a @ b
        best = min(best, time.process_time() - start)
    return 2 * n**3 / best


def flops_per_image(model: nn.Module, job: Callable) -> int:
    """Multiplications and additions in matrix products and convolutions, counted by PyTorch."""
    images, labels = torch.randn(2, 1, 28, 28), torch.tensor([0, 1])
    # The counter sees only the plain kernel of attention, and no attention in eval mode.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        if job is training_step:
            training_step(model, images, labels)()
        else:
            model.train()(images)
    return counter.get_total_flops() // 2


def top_five(model: nn.Module, job: Callable, n: int) -> list[str]:
    """The operators that took most of the time themselves, with their shares."""
    do_it = job(model, torch.randn(n, 1, 28, 28), torch.randint(10, (n,)))
    do_it()
    processor = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=processor, acc_events=True) as profile:
        do_it()
    events = sorted(profile.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    return [f"{event.key} {event.self_cpu_time_total / total:.0%}" for event in events[:5]]


# ---- attention: maps of 1,000 digits ----


def attention(rounds: int, tiny: bool) -> Figure:
    """All weights against a plain forward, and against a forward per layer, head and image."""
    model, digits = vit_mnist().eval(), load_embedded()
    few = 2 if tiny else 8
    count = 8 if tiny else 1000
    size = 4 if tiny else 20  # the weights of 20 digits stay in the cache
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
                layer[:, :, 0].sum()  # used where they lie, then gone

    def in_one_tensor() -> None:
        for batch in images.split(size):
            attention_weights(model, batch)[:, :, :, 0].sum()

    def one_by_one() -> None:
        for image, layer, head in itertools.product(images[:few], range(2), range(2)):
            attention_weights(model, image[None])[0, layer, head]

    same = compare(weights, forward, rounds)
    copied = compare(in_one_tensor, forward, rounds)
    apart = compare(one_by_one, weights, rounds)
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
    """Return the megabytes that a fresh process needs at most for its maps; None but on Linux."""
    if sys.platform != "linux":
        return None
    command = [sys.executable, "-c", PEAK.format(kind=kind, count=count, size=size)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


# ---- data: images per second ----


class PerImage(Dataset):
    """As torchvision.datasets.MNIST: a Pillow image is made and transformed, one at a time."""

    def __init__(self, data: ImageData, transform: Callable) -> None:
        self.images = data.images[:, 0].numpy()
        self.labels = data.labels.tolist()
        self.transform = transform

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
        v2.Normalize((MNIST_MEAN,), (MNIST_STD,)),
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
    for workers in [0] if tiny else [0, 2]:
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
        measured = compare(partial(one_pass, usual), partial(one_pass, loader), rounds, clock)
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
    """Seconds that it takes to run a notebook and compare its outputs, in its own process."""
    paths = notebooks()[:1] if tiny else notebooks()
    free = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    seconds: dict[str, float] = {}
    for path in paths:
        start = time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=free)
        seconds[path.stem] = round(time.perf_counter() - start, 1)
        print(f"{path.stem}: {seconds[path.stem]} s", flush=True)
    total = round(sum(seconds.values()), 1)
    threads = machine() | {"threads": os.cpu_count()}
    return {"figures": [], "machine": threads, "seconds": {"all": total, **seconds}}


# ---- a GPU, where there is one ----


def gpu(rounds: int, tiny: bool) -> Figure:
    """Seconds to 99 % validation, data loading and validation included; one run.

    Batches are large, because a step costs the same launches. On a CPU this recipe passes 99 % in
    epoch 22 of 30: ``python -m mnist_vit train vit_mnist_p4 --data mnist --epochs 30 --batch-size
    256 --learning-rate 4e-3 --average 0.996 --position-start sincos --optimizer adamw
    --label-smoothing 0 --elastic 0``.
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
        "optimizer": "adamw",
        "label_smoothing": 0.0,
        "elastic": 0.0,
    }
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        history = train("vit_mnist_p4", "embedded" if tiny else "mnist", run_dir=folder, **recipe)
    around = time.perf_counter() - start - sum(row["seconds"] for row in history)
    seconds = None
    spent = around
    for row in history:
        spent += row["seconds"]
        if row["validation_accuracy"] >= 0.99:
            seconds = spent
            break
    return {"figures": [], "recipe": recipe, "seconds_to_99": seconds, "history": history}


SECTIONS = {"model": model, "attention": attention, "data": data, "course": course, "gpu": gpu}


NAMES = list(SECTIONS)


# ---- the page ----


def page(results: Figure) -> str:
    """The stored results as Markdown."""
    text = (
        "# Speed\n\nMade by `python -m benchmarks speed`; a figure is the median of the rounds"
        " (lowest to highest).\n"
    )
    for name, section in results.items():
        text += f"\n## {name}\n\n{where(section['machine'])}"
        if section["figures"]:
            text += "\n" + figures_table(section["figures"])
        if "roofline" in section:
            text += roofline_table(section["roofline"])
        if "memory" in section:
            text += memory_list(section["memory"])
        if "seconds" in section:
            text += "\n" + course_table(section["seconds"])
        if "note" in section or "seconds_to_99" in section:
            text += f"\n{section.get('note') or section['seconds_to_99']}.\n"
    return text


def where(machine: Figure) -> str:
    return (
        f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores, load"
        f" {machine['load']}, torch {machine['torch']}, torchvision {machine['torchvision']},"
        f" {machine['date']}.\n"
    )


def figures_table(figures: list[Figure]) -> str:
    rows = []
    for one in figures:
        measured = f"**{one['ratio']:.2f}** ({one['lowest']:.2f} to {one['highest']:.2f})"
        rows.append((one["name"], one["sides"], measured))
    return table(("figure", "what by what", "measured"), rows)


def roofline_table(roofline: Figure) -> str:
    heads = (
        "model",
        "job",
        "MFLOP per image",
        "images per second",
        "share of that",
        "top five operators",
    )
    rows = []
    for one in roofline["rows"]:
        share, operators = f"{one['share_of_peak']:.0%}", ", ".join(one["top_five"])
        counted = (one["mflop_per_image"], one["images_per_second"])
        rows.append((one["model"], one["job"], *counted, share, operators))
    peak = f"A large matrix product reached {roofline['matmul_peak_gflops']} GFLOP/s."
    return f"\n{peak}\n\n{table(heads, rows)}"


def memory_list(memory: Figure) -> str:
    text = f"\nMemory, {memory['what']}:\n\n"
    for key, value in memory.items():
        if key != "what":
            text += f"- {key}: {value}\n"
    return text


def course_table(seconds: dict[str, float]) -> str:
    """Seconds of today's notebooks; those that came after the measurement are told apart."""
    rows = [("all that were measured", seconds["all"])]
    for path in notebooks():
        rows.append((path.stem, seconds.get(path.stem, "not measured yet")))
    return table(("notebook", "seconds"), rows)
