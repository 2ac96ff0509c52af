"""Work that may be killed, or meet a full disk: torch is imported once, then each job is a fork of
this process.

A line of JSON on stdin asks for a job (the keywords of ``work``); the line that answers holds its
exit status, as ``os.waitpid`` gives it (9 after SIGKILL), its seconds, and what it returned.
"""

import errno
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from mnist_vit import files
from mnist_vit.data import ImageData, Loader
from mnist_vit.explorer import write_page
from mnist_vit.gallery import replacing, save_attention_images
from mnist_vit.model import VisionTransformer
from mnist_vit.training import fit, make_optimizer
from mnist_vit.weights import save_weights

EPOCHS = 6


def toy_data(n: int = 64) -> ImageData:
    """Two classes that can be learnt: ink on the left or on the right."""
    images = torch.randint(
        0, 60, (n, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
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


def toy_maps(folder: Path, names: list[str], layers: int = 2, page: bool = True) -> None:
    """Draw these images of the toy data, and the page."""
    toy, model = toy_data(), toy_model(layers=layers)
    images = toy.normalise(toy.images[: len(names)])
    with replacing(folder) as new:
        save_attention_images(model, images, toy.images[: len(names)], names, new, toy.classes)
        if page:
            about = {
                "title": f"{layers} layers",
                "text": "",
                "classes": toy.classes,
                "digits": False,
            }
            about |= {"mean": toy.mean, "std": toy.std}
            write_page(
                new / "index.html", model, images, toy.images[: len(names)], names, None, **about
            )


def digest(model: torch.nn.Module) -> str:
    """Two models with the same digest have the same weights, to the last bit."""
    return hashlib.sha256(
        b"".join(t.numpy().tobytes() for t in model.state_dict().values())
    ).hexdigest()


def survive(folder: Path, epochs: int = EPOCHS) -> str:
    """A whole run with its final save; resumes what it finds, as a user who reads the messages
    would."""
    model = toy_model()
    toy_fit(model, epochs, run_dir=folder, resume=(folder / "config.json").exists())
    save_weights(model, folder / "weights.pth")
    return digest(model)


JOBS: dict[str, Callable[..., Any]] = {
    "train": survive,
    "draw": toy_maps,
    "save": lambda folder, seed: (
        save_weights(toy_model(seed), folder / "w.pth", name=f"seed {seed}").name
    ),
}


def break_disk(at: int, how: str, lasting: bool = False) -> Callable[[], int]:
    """Let the step ``at`` of all that touches the disk fail: each open, write, fsync, rename and
    new folder is one.

    Args:
        at: counted from 1; a write is done by half.
        how: "kill", or the name of an error such as ENOSPC.
        lasting: every step after it fails too.

    Returns:
        A function that gives the number of steps so far.
    """
    steps = 0

    def due() -> bool:
        nonlocal steps
        steps += 1
        return steps == at or (lasting and steps > at)

    def fail() -> None:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(getattr(errno, how), os.strerror(getattr(errno, how)))

    class Disk:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> "Disk":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, content: Any) -> int:
            if due():
                self.file.write(memoryview(content)[: len(content) // 2])
                self.file.flush()
                fail()
            return self.file.write(content)

    def breaking(function: Callable) -> Callable:
        def called(*arguments: Any, **keywords: Any) -> Any:
            if due():
                fail()
            result = function(*arguments, **keywords)
            return Disk(result) if function is open else result

        return called

    files.open = breaking(open)
    for name in ("fsync", "replace", "mkdir"):
        setattr(os, name, breaking(getattr(os, name)))
    return lambda: steps


def work(job: str, folder: str, fault: dict[str, Any] | None = None, **wish: Any) -> dict:
    """Do one of ``JOBS``, with its keywords, on a disk that is broken by the keywords of
    ``break_disk``."""
    torch.set_num_threads(1)
    answer, error, steps = None, None, break_disk(**fault) if fault else lambda: 0
    try:
        answer = JOBS[job](Path(folder), **wish)
    except (OSError, ValueError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    return {"answer": answer, "error": error, "steps": steps()}


def main() -> None:
    """Answer until stdin ends."""
    with tempfile.TemporaryDirectory() as folder:  # imports much: here, once, not in each child
        make_optimizer(toy_model(), 0.1, 0.1)
        toy_maps(Path(folder), ["a"])
    for line in sys.stdin:
        wish = {"job": "train", **json.loads(line)}
        seconds, number = wish.pop("after", 600), wish.pop("signal", signal.SIGKILL)
        start = time.perf_counter()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                with redirect_stdout(sys.stderr):
                    said = work(**wish)
                os.write(writer, json.dumps(said).encode())
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        os.close(writer)
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.perf_counter() - start > seconds:
                os.kill(child, number)
                seconds = 600
            time.sleep(0.002)
        with open(reader, "rb") as pipe:
            said = json.loads(pipe.read() or b"{}")
        print(
            json.dumps({"status": ended[1], "seconds": time.perf_counter() - start, **said}),
            flush=True,
        )


if __name__ == "__main__":
    main()
