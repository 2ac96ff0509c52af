"""The live page in headless Chromium: how long a forward pass, a stroke and opening take, and how
long writing does.

    python -m benchmarks page --rounds 60

A busy machine only slows down, so the fastest of the rounds is told beside their median.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import measure

import mnist_vit
from mnist_vit.data import load_data

TIMED = """rounds => Array.from({length: rounds}, () => {
    const start = performance.now();
    RUN;
    return performance.now() - start;
})"""
FORWARD = TIMED.replace("RUN", "model.forward(normalise(shown, page.image, page.mean, page.std))")
STROKE = TIMED.replace("RUN", "use([5, 5], [12, 9]); update()")  # until the ink is seen


def times(numbers: list[float]) -> dict[str, float]:
    """The fastest and the median."""
    return {"fastest": round(min(numbers), 1), "median": round(statistics.median(numbers), 1)}


def in_browser(path: Path, rounds: int) -> dict[str, Any]:
    """Milliseconds in Chromium: until the first answer is shown, for a forward pass, and for a
    piece of a stroke."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = os.environ.get("MNIST_VIT_CHROMIUM") or next(
        filter(None, map(shutil.which, names)), None
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened = []
        for _ in range(min(rounds, 10)):
            page, start = browser.new_page(), time.perf_counter()
            page.goto(path.resolve().as_uri())
            page.wait_for_function(
                "() => now !== null && document.getElementById('verdict').textContent"
            )
            opened.append(1000 * (time.perf_counter() - start))
            page.evaluate("clearTimeout(timer)")  # the worker would share the processor
        page.evaluate("choose('draw'), edit(() => {}), clearTimeout(timer)")
        found = {
            "open": opened,
            "forward": page.evaluate(FORWARD, rounds),
            "stroke": page.evaluate(STROKE, rounds),
        }
        browser.close()
    return {name: times(numbers) for name, numbers in found.items()}


def main(arguments: list[str] | None = None) -> None:
    """Write pages of all shipped weights, time them, and store what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60, help="forward passes (default 60)")
    parser.add_argument(
        "--out", type=Path, default=measure.RESULTS / "page.json", help="file of results"
    )
    options = parser.parse_args(arguments)
    results: dict[str, Any] = {
        "command": "python -m benchmarks page",
        "machine": measure.machine(),
        "pages": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for name in ("vit_mnist", "vit_mnist_p4", "vit_mnist_p7", "vit_cifar10"):
            data = load_data(
                *(("cifar10", "test") if name == "vit_cifar10" else ("embedded", "all"))
            )
            path = mnist_vit.visualize_attention(name, data, out=Path(folder) / name)
            figures = {
                "kilobytes": round(path.stat().st_size / 1000),
                "milliseconds": in_browser(path, options.rounds),
            }
            results["pages"][name] = figures
            print(name, figures)
        model, start = mnist_vit.load_model("vit_mnist"), (time.perf_counter(), time.process_time())
        mnist_vit.visualize_attention(model, per_class=50, out=Path(folder) / "many")
        passed = time.perf_counter() - start[0], time.process_time() - start[1]
        results["500 images written"] = {
            "seconds": round(passed[0], 1),
            "of the processor": round(passed[1], 1),
        }
    measure.write(options.out, results)


if __name__ == "__main__":
    main()
