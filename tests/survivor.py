"""Training runs that may be killed: torch is imported once, then each run is a fork of this process.

A line of JSON on stdin asks for a run (the keywords of ``survive``); the line that answers holds its exit status, as
``os.waitpid`` gives it (9 after SIGKILL), and its seconds.
"""

import json
import os
import signal
import stat
import sys
import time
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import torch

from mnist_vit.data import ImageData, Loader
from mnist_vit.model import VisionTransformer
from mnist_vit.training import fit, make_optimizer
from mnist_vit.weights import save_weights

EPOCHS = 6
WRITES = 2 + 2 * EPOCHS + 2  # config and metrics; checkpoint and metrics of each epoch; weights.pth and weights.json


def toy_data(n: int = 64) -> ImageData:
    """Two classes that can be learnt: ink on the left or on the right."""
    images = torch.randint(0, 60, (n, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    labels = torch.arange(n) % 2
    images[labels == 0, :, :, :4] += 150
    images[labels == 1, :, :, 4:] += 150
    return ImageData(images, labels, ("left", "right"), "toy", (0.5,), (0.25,))


def toy_model(seed: int = 0) -> VisionTransformer:
    """A Vision Transformer with dropout that learns them in a blink."""
    torch.manual_seed(seed)
    return VisionTransformer(8, 4, 2, 2, 16, 32, dropout=0.1, num_classes=2, in_channels=1)


def toy_fit(model: torch.nn.Module, epochs: int = 3, loader: Loader | None = None, **keywords: object) -> list[dict]:
    """Train on the two classes."""
    loader = loader or Loader(toy_data(), 16, shuffle=True, augmentation={"degrees": 5})
    return fit(model, loader, Loader(toy_data(), 50), epochs=epochs, average=0.5, learning_rate=1e-2, **keywords)


def survive(folder: Path, kill_at_write: int = 0, small_files: bool = False) -> None:
    """A whole run with its final save; resumes what it finds, as a user who reads the messages would.

    Args:
        folder: of the run.
        kill_at_write: this write, counted from 1, is cut in half, and then the process is killed.
        small_files: from epoch 3 on, until epoch 5, the system refuses files of more than 4 KB.
    """
    writes, fsync = 0, os.fsync

    def fsync_or_die(file: int) -> None:
        nonlocal writes
        writes += stat.S_ISREG(os.fstat(file).st_mode)  # not the folder's names
        if writes == kill_at_write:
            os.ftruncate(file, os.fstat(file).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(file)

    def before_epoch(epoch: int) -> None:
        if small_files:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096 if 2 <= epoch < 4 else hard, hard))

    os.fsync = fsync_or_die
    torch.set_num_threads(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = toy_model()
        resume = (folder / "config.json").exists()
        toy_fit(model, EPOCHS, run_dir=folder, resume=resume, before_epoch=before_epoch)
        save_weights(model, folder / "weights.pth")
    (folder.parent / f"{folder.name}.warnings").write_text("\n".join(str(warning.message) for warning in caught))


def main() -> None:
    """Answer until stdin ends."""
    make_optimizer(toy_model(), 0.1, 0.1)  # the first optimizer imports much of torch: here, once, not in each child
    for line in sys.stdin:
        wish = json.loads(line)
        seconds = wish.pop("kill_after", 600)
        start = time.perf_counter()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with redirect_stdout(sys.stderr):
                    survive(Path(wish.pop("folder")), **wish)
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.perf_counter() - start > seconds:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.002)
        print(json.dumps({"status": ended[1], "seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
