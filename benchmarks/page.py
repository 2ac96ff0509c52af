"""The live page in headless Chromium: how long opening, a forward pass and a stroke take.

    python -m benchmarks page

It also times writing the pages. A busy machine only slows down, so the fastest of the rounds is
told beside their median. Nothing is stored.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import mnist_vit
from mnist_vit.data import load_data
from tools.picture import chromium

THREADS = None
TIMED = """rounds => Array.from({length: rounds}, () => {
    const start = performance.now();
    RUN;
    return performance.now() - start;
})"""
FORWARD = TIMED.replace("RUN", "model.forward(normalise(shown, page.image, page.mean, page.std))")
STROKE = TIMED.replace("RUN", "use([5, 5], [12, 9]); update()")  # until the ink is seen
SHOWN = "() => now !== null && document.getElementById('verdict').textContent"


def run(rounds: int = 60) -> dict[str, Any]:
    """Write pages of all shipped weights and time them; ``rounds`` counts forward passes."""
    pages = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("vit_mnist", "vit_mnist_p4", "vit_mnist_p7", "vit_cifar10"):
            if name == "vit_cifar10":
                data = load_data("cifar10", "test")
            else:
                data = load_data("embedded", "all")
            path = mnist_vit.visualize_attention(name, data, out=Path(folder) / name)
            pages[name] = {
                "kilobytes": round(path.stat().st_size / 1000),
                "milliseconds": in_browser(path, rounds),
            }
        written = write_500_images(Path(folder) / "many")
    return {"pages": pages, "500 images written": written}


def in_browser(path: Path, rounds: int) -> dict[str, Any]:
    """Return milliseconds until an answer is shown, for a forward pass, and for a stroke."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        opened = []
        for _ in range(min(rounds, 10)):
            page = browser.new_page()
            start = time.perf_counter()
            page.goto(path.resolve().as_uri())
            page.wait_for_function(SHOWN)
            opened.append(1000 * (time.perf_counter() - start))
            page.evaluate("clearTimeout(timer)")  # the worker would share the processor
        page.evaluate("choose('draw'), edit(() => {}), clearTimeout(timer)")
        forward = page.evaluate(FORWARD, rounds)
        stroke = page.evaluate(STROKE, rounds)
        browser.close()
    return {"open": summary(opened), "forward": summary(forward), "stroke": summary(stroke)}


def summary(numbers: list[float]) -> dict[str, float]:
    return {"fastest": round(min(numbers), 1), "median": round(statistics.median(numbers), 1)}


def write_500_images(folder: Path) -> dict[str, float]:
    """Return the seconds that it takes to write 500 images with their maps."""
    model = mnist_vit.load_model("vit_mnist")
    start, processor = time.perf_counter(), time.process_time()
    mnist_vit.visualize_attention(model, per_class=50, out=folder)
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "of the processor": round(time.process_time() - processor, 1),
    }
