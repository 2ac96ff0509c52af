"""How nbval compares the notebooks: pictures too, slightly blurred; the last printed decimal may differ by one unit.

nbval itself does not look at PNG outputs, so a blank figure would pass, and it compares nothing where a cell was never
run, so a stripped notebook would pass. Stderr (progress bars, warnings) is left out.
"""

import base64
import copy
import io
import os
import re
import tempfile
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageFilter, ImageStat

NUMBER = re.compile(r"-?\d+\.\d+")

KERNEL = {"CUDA_VISIBLE_DEVICES": "", "MNIST_VIT_OFFLINE": "1", "TQDM_DISABLE": "1"}
KERNEL |= {"MNIST_VIT_DATA": "/nowhere", "TORCH_HOME": "/nowhere"}  # the embedded digits, no downloaded weights


def pytest_configure(config: pytest.Config) -> None:
    """Put our comparison and the kernels' environment (CPU, offline, embedded digits, no progress bars) into nbval."""
    from nbval.plugin import IPyNbCell, IPyNbFile

    if hasattr(IPyNbFile, "start_plain"):
        return
    written = tempfile.TemporaryDirectory(prefix="mnist_vit_")  # what the notebooks write; gone at the end
    config.add_cleanup(written.cleanup)
    IPyNbFile.start_plain, IPyNbCell.compare_plain = IPyNbFile.setup, IPyNbCell.compare_outputs

    def setup(self: Any) -> None:
        if any(cell.cell_type == "code" and cell.execution_count is None for cell in self.nb.cells):
            raise ValueError(
                f"{self.path.name} has cells without stored outputs: python notebooks/refresh.py stores them"
            )
        kept = dict(os.environ)
        os.environ.update(KERNEL, MNIST_VIT_OUT=tempfile.mkdtemp(dir=written.name))
        os.environ.pop("MPLBACKEND", None)
        try:
            self.start_plain()
        finally:
            os.environ.clear()
            os.environ.update(kept)

    def compare_outputs(self: Any, test: list[dict], ref: list[dict], skip_compare: Any = None) -> bool:
        skip = (*(skip_compare or self.parent.skip_compare), "stderr")
        return self.compare_plain(agree(test, ref), ref_pictures(ref), skip)

    IPyNbFile.setup, IPyNbCell.compare_outputs = setup, compare_outputs


def agree(test: list[dict], ref: list[dict]) -> list[dict]:
    """The new outputs, with what may differ replaced by what is stored."""
    test = copy.deepcopy(test)
    stored = [output["data"]["image/png"] for output in ref if "image/png" in output.get("data", {})]
    fresh = [output for output in test if "image/png" in output.get("data", {})]
    for i, output in enumerate(fresh):
        same = i < len(stored) and same_picture(stored[i], output["data"].pop("image/png"))
        output["data"]["picture"] = "as stored" if same else "NOT as stored: look at it"
    for new, old in zip(_streams(test), _streams(ref), strict=False):
        new["text"] = agree_text("".join(new["text"]), "".join(old["text"]))
    for new, old in zip(test, ref, strict=False):
        for kind in ("text/plain", "text/html"):
            if kind in new.get("data", {}) and kind in old.get("data", {}):
                new["data"][kind] = agree_text("".join(new["data"][kind]), "".join(old["data"][kind]))
    return test


def ref_pictures(ref: list[dict]) -> list[dict]:
    """The stored outputs, each picture replaced by the word that ``agree`` gives an equal one."""
    ref = copy.deepcopy(ref)
    for output in ref:
        if "image/png" in output.get("data", {}):
            del output["data"]["image/png"]
            output["data"]["picture"] = "as stored"
    return ref


def agree_text(new: str, old: str) -> str:
    """The old text if the new one differs from it only by one unit of the last decimal of some numbers."""
    if NUMBER.sub("#", new) != NUMBER.sub("#", old):
        return new
    for a, b in zip(NUMBER.findall(new), NUMBER.findall(old), strict=True):
        unit = 10.0 ** -len(b.partition(".")[2])
        if len(a.partition(".")[2]) != len(b.partition(".")[2]) or abs(float(a) - float(b)) > 1.01 * unit:
            return new
    return old


def same_picture(stored: str, fresh: str) -> bool:
    """Whether two PNG pictures, base64, look the same out of focus.

    A line or a letter may lie half a pixel elsewhere; a line that runs another way or a cell of another colour shows.
    """
    a, b = _blurred(stored), _blurred(fresh)
    if max(abs(a.width - b.width), abs(a.height - b.height)) > 2:
        return False
    difference = ImageStat.Stat(ImageChops.difference(a, b.resize(a.size)))
    return max(difference.mean) < 5 and max(high for _, high in difference.extrema) < 50


def _blurred(picture: str) -> Image.Image:
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(paper, image).convert("RGB").filter(ImageFilter.GaussianBlur(2))


def _streams(outputs: list[dict]) -> list[dict]:
    return [output for output in outputs if output.get("name") == "stdout"]
