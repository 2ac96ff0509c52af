"""Take the README's picture, the live page of ``vit_mnist``: ``python -m tools picture`` writes
``docs/picture.png``.

It needs playwright and a Chromium: see CONTRIBUTING.md.
"""

import io
import os
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import mnist_vit

TARGET = Path(__file__).resolve().parent / "picture.png"


def take(target: Path = TARGET) -> None:
    """Write the page, open it, wait for its numbers, and take its picture."""
    program = os.environ.get("MNIST_VIT_CHROMIUM") or shutil.which("chromium") or None
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = mnist_vit.explore("vit_mnist", out=Path(folder) / "page.html")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1366, "height": 1366})
        page.goto(file.resolve().as_uri())
        page.wait_for_timeout(20_000)  # every patch is left out once
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    shot.quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    take()
