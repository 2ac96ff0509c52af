"""Take the README's picture, the live page of ``vit_mnist``.

It needs playwright and a Chromium: see CONTRIBUTING.md.
"""

import io
import os
import re
import shutil
import tempfile
from pathlib import Path

from PIL import Image

import mnist_vit

from . import ROOT

TARGET = ROOT / "docs" / "picture.png"
COUNTING = re.compile(r"\d+ of \d+ runs done")  # each patch is left out once


def chromium() -> str | None:
    """The path of a Chromium; None leaves it to playwright."""
    if "MNIST_VIT_CHROMIUM" in os.environ:
        return os.environ["MNIST_VIT_CHROMIUM"]
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        found = shutil.which(name)
        if found:
            return found
    return None


def take(target: Path = TARGET) -> None:
    """Write the page, open it, wait for its numbers, and take its picture."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = mnist_vit.explore("vit_mnist", out=Path(folder) / "page.html")
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1366, "height": 1366})
        page.goto(file.resolve().as_uri())
        page.wait_for_timeout(2_000)
        while COUNTING.search(page.inner_text("body")):
            page.wait_for_timeout(500)
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    shot.quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)


def main(words: list[str]) -> None:
    """Take the picture."""
    take()
