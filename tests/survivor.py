"""Work that may be killed, or meet a full disk: torch is imported once, then each job is a fork of
this process.

A line of JSON on stdin asks for a job (the keywords of ``work``). The line that answers holds its
exit status (-9 after SIGKILL), and what it returned.
"""

import errno
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mnist_vit import files
from mnist_vit.data import ImageData, Loader
from mnist_vit.explorer import Beside, write_page
from mnist_vit.gallery import INDEX, SMALLEST, replacing, save_attention_images
from mnist_vit.model import VisionTransformer
from mnist_vit.training import fit, make_optimizer
from mnist_vit.weights import save_weights


def toy_data(n: int = 64) -> ImageData:
    """Two classes that can be learnt: ink on the left or on the right."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 60, (n, 1, 8, 8), generator=generator, dtype=torch.uint8)
    labels = torch.arange(n) % 2
    images[labels == 0, :, :, :4] += 150
    images[labels == 1, :, :, 4:] += 150
    return ImageData(images, labels, ("left", "right"), "toy", (0.5,), (0.25,))


def toy_model(seed: int = 0, layers: int = 2) -> VisionTransformer:
    """A Vision Transformer with dropout that learns them in a blink."""
    torch.manual_seed(seed)
    return VisionTransformer(8, 4, layers, 2, 16, 32, dropout=0.1, num_classes=2, in_channels=1)


def toy_fit(
    model: torch.nn.Module, epochs: int = 3, loader: Loader | None = None, **keywords: object
) -> list[dict]:
    """Train on the two classes."""
    loader = loader or Loader(toy_data(), 16, shuffle=True, augmentation={"degrees": 5})
    keywords = {"average": 0.5, "learning_rate": 1e-2, **keywords}
    return fit(model, loader, Loader(toy_data(), 50), epochs=epochs, **keywords)


def toy_maps(
    folder: Path, names: list[str], layers: int = 2, page: bool = True, two: bool = False
) -> None:
    """Draw these images of the toy data, and the page; ``two``: also the page beside it."""
    toy = toy_data()
    model = toy_model(layers=layers)
    pictures = toy.images[: len(names)]
    images = toy.normalise(pictures)
    with replacing(folder) as new:
        save_attention_images(model, images, pictures, names, new, toy.classes)
        if page:
            about = {
                "title": f"{layers} layers",
                "text": "",
                "classes": toy.classes,
                "digits": False,
                "mean": toy.mean,
                "std": toy.std,
            }
            if two:
                beside = Beside(INDEX, "toy", 5, 4, first=False, own="toy")
                about["beside"] = beside
                write_page(new / SMALLEST, model, images, pictures, names, None, **about)
                about["beside"] = replace(beside, file=SMALLEST, first=True)
            write_page(new / INDEX, model, images, pictures, names, None, **about)


def digest(model: torch.nn.Module) -> str:
    """Two models with the same digest have the same weights, to the last bit."""
    tensors = model.state_dict().values()
    return hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors)).hexdigest()


# ------------------------------------------------------------------------------------------ jobs


def train(folder: Path, epochs: int) -> str:
    """A whole run with its final save; resumes what it finds, as the messages tell a user to."""
    model = toy_model()
    toy_fit(model, epochs, run_dir=folder, resume=(folder / "config.json").exists())
    save_weights(model, folder / "weights.pth")
    return digest(model)


def save(folder: Path, seed: int) -> str:
    """Weights under one name, of a model that the seed decides."""
    return save_weights(toy_model(seed), folder / "w.pth", name=f"seed {seed}").name


JOBS: dict[str, Callable[..., Any]] = {"train": train, "save": save, "draw": toy_maps}


# --------------------------------------------------------------------------------- a broken disk


class BrokenDisk:
    """Fails at one step and ever after: each open, write, fsync, rename and new folder is a step.

    Args:
        at: the first step that fails, counted from 1; a write is done by half.
        how: "kill", or the name of an error such as ENOSPC.
    """

    def __init__(self, at: int, how: str) -> None:
        self.at = at
        self.how = how
        self.steps = 0

    def install(self) -> None:
        """Break what ``mnist_vit.files`` writes with, in this process."""
        files.open = self.opened
        for name in ("fsync", "replace", "mkdir"):
            setattr(os, name, self.breaking(getattr(os, name)))

    def due(self) -> bool:
        """Count a step; whether it fails."""
        self.steps += 1
        return self.steps >= self.at

    def fail(self) -> None:
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, self.how)
        raise OSError(number, os.strerror(number))

    def breaking(self, function: Callable) -> Callable:
        def called(*arguments: Any, **keywords: Any) -> Any:
            if self.due():
                self.fail()
            return function(*arguments, **keywords)

        return called

    def opened(self, *arguments: Any, **keywords: Any) -> Any:
        """An open file on the broken disk."""
        file = self.breaking(open)(*arguments, **keywords)
        write = file.write

        def written(content: Any) -> int:
            if self.due():
                write(memoryview(content)[: len(content) // 2])
                file.flush()
                self.fail()
            return write(content)

        file.write = written
        return file


# ---------------------------------------------------------------------------------- the process


def work(job: str, folder: str, at: int = 10**9, how: str = "kill", **wish: Any) -> dict:
    """Do one of ``JOBS`` with its keywords on a ``BrokenDisk``."""
    torch.set_num_threads(1)
    disk = BrokenDisk(at, how)
    disk.install()
    answer = None
    error = None
    try:
        with redirect_stdout(sys.stderr):
            answer = JOBS[job](Path(folder), **wish)
    except (OSError, ValueError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    return {"answer": answer, "error": error, "steps": disk.steps}


def in_a_child(wish: dict[str, Any]) -> dict[str, Any]:
    """Fork, work there, and wait for it."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sender.send(work(**wish)))
    child.start()
    child.join()
    said = receiver.recv() if child.exitcode == 0 else {}
    return {"status": child.exitcode, **said}


def main() -> None:
    """Answer until stdin ends."""
    with tempfile.TemporaryDirectory() as folder:  # imports much: here, once, not in each child
        make_optimizer(toy_model(), 0.1, 0.1)
        toy_maps(Path(folder), ["a"])
    for line in sys.stdin:
        print(json.dumps(in_a_child(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
