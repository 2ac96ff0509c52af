"""How nbval compares the notebooks: ``python -m pytest --nbval --nbval-current-env FOLDER``.

Pictures are compared, which nbval itself does not; the last printed decimal may differ by one unit;
the accuracy of a small live training, ``84 % (stored: 82 to 84)``, by two points from the stored
range. Left out are stderr (progress bars, warnings), the live page, lines that begin with
``my_vit.py: ``, which tell whose pieces are in use, and the line of each epoch of a training, which
holds its time. A ``my_vit.py`` beside a notebook is used, and
not changed. Cells tagged needs-cifar10 are compared where the images of CIFAR-10 are at hand, and
skipped elsewhere. Cells tagged long train for long, and no later cell needs them: ``-m "not long"``
leaves them out. A notebook with a cell that was never run fails.
"""

import base64
import copy
import io
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageFilter

NUMBER = re.compile(r"-?\d+\.\d+")
WHOSE = re.compile(r"my_vit\.py: .*\n?")
EPOCH = re.compile(r"epoch +\d+/\d+  loss .* s\n?")  # what training prints after an epoch
PAGE = '<div class="mnist-vit-page"'  # what mnist_vit.explore returns

KERNEL = {"CUDA_VISIBLE_DEVICES": "", "MNIST_VIT_OFFLINE": "1", "TQDM_DISABLE": "1"}
KERNEL |= {
    "MNIST_VIT_DATA": "/nowhere",
    "TORCH_HOME": "/nowhere",
}  # the embedded digits, no downloaded weights
NO_CIFAR10 = (
    "the images of CIFAR-10 are not at hand: set MNIST_VIT_DATA to a folder with cifar10.zip"
)


def needs_cifar10(cell: Any) -> bool:
    """Whether a cell says by its tag that it needs the images of CIFAR-10."""
    return "needs-cifar10" in cell.metadata.get("tags", [])


def is_long(cell: Any) -> bool:
    """Whether a cell says by its tag that it trains for long."""
    return "long" in cell.metadata.get("tags", [])


def cifar10_folder() -> str | None:
    """The folder with the images of CIFAR-10, if they are at hand."""
    from mnist_vit.files import data_dir

    found = any((data_dir() / name).exists() for name in ("cifar10.zip", "cifar-10-batches-py"))
    return str(data_dir().resolve()) if found else None


def kernel_environment(notebook: Any) -> dict[str, str]:
    """CPU, offline, embedded digits only; and CIFAR-10 for a notebook that needs it, where it is at
    hand."""
    folder = cifar10_folder() if any(needs_cifar10(cell) for cell in notebook.cells) else None
    return KERNEL | ({"MNIST_VIT_DATA": folder} if folder else {})


def pytest_configure(config: pytest.Config) -> None:
    """Put our comparison, the kernels' environment and the cells that need CIFAR-10 into nbval."""
    from nbval.kernel import RunningKernel
    from nbval.plugin import IPyNbCell, IPyNbFile

    if hasattr(IPyNbFile, "start_plain"):
        return
    written = tempfile.TemporaryDirectory(
        prefix="mnist_vit_"
    )  # what the notebooks write; gone at the end
    config.add_cleanup(written.cleanup)
    config.addinivalue_line("markers", "long: a cell of a notebook that trains for long")
    IPyNbFile.start_plain, IPyNbCell.compare_plain = IPyNbFile.setup, IPyNbCell.compare_outputs
    IPyNbCell.run_plain = IPyNbCell.runtest

    def setup(self: Any) -> None:
        if any(cell.cell_type == "code" and cell.execution_count is None for cell in self.nb.cells):
            raise ValueError(
                f"{self.path.name} has cells that were not run: run them all and save, or"
                " python -m tools outputs"
            )
        counts = [cell.execution_count for cell in self.nb.cells if cell.cell_type == "code"]
        if counts != list(range(1, len(counts) + 1)):
            raise ValueError(f"{self.path.name}: a cell was removed, or they were not run in order")
        kept = dict(os.environ)
        os.environ.update(
            kernel_environment(self.nb), MNIST_VIT_OUT=out_folder(self.path.parent, written.name)
        )
        os.environ.pop("MPLBACKEND", None)
        try:
            self.start_plain()
        finally:
            os.environ.clear()
            os.environ.update(kept)

    def compare_outputs(
        self: Any, test: list[dict], ref: list[dict], skip_compare: Any = None
    ) -> bool:
        skip = (*(skip_compare or self.parent.skip_compare), "stderr")
        test, ref = without_whose(test), without_whose(ref)
        return self.compare_plain(agree(test, ref), ref_pictures(ref), skip)

    def runtest(self: Any) -> None:
        if needs_cifar10(self.cell) and cifar10_folder() is None:
            pytest.skip(NO_CIFAR10)
        self.run_plain()

    def execute(self: Any, cell_input: str, allow_stdin: bool | None = None) -> str:
        # with a history, as in Jupyter: the checks find there what my_vit.py is made of
        return self.kc.execute(cell_input, allow_stdin=allow_stdin, stop_on_error=False)

    IPyNbFile.setup = setup
    IPyNbCell.compare_outputs = compare_outputs
    IPyNbCell.runtest = runtest
    RunningKernel.execute_cell_input = execute


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the cells that train for long."""
    cell = getattr(item, "cell", None)
    if cell is not None and is_long(cell):
        item.add_marker("long")


def out_folder(notebooks: Path, written: str) -> str:
    """Where a notebook writes: a new folder, with a copy of the learner's my_vit.py if there is
    one.

    MNIST_VIT_OUT is taken as it is where it names the notebooks' own folder: then they write there,
    one for the next.
    """
    if Path(os.environ.get("MNIST_VIT_OUT") or "/").resolve() == notebooks.resolve():
        return str(notebooks.resolve())
    folder = tempfile.mkdtemp(dir=written)
    if (notebooks / "my_vit.py").is_file():
        shutil.copy(notebooks / "my_vit.py", folder)
    return folder


def without_whose(outputs: list[dict]) -> list[dict]:
    """The outputs without the printed lines that tell whose pieces are in use, or of an epoch, and
    the live page by its name alone."""
    outputs = copy.deepcopy(outputs)
    for output in outputs:
        if PAGE in "".join(output.get("data", {}).get("text/html", "")):
            output["data"] = {"text/plain": "the live page"}
    for output in _streams(outputs):
        lines = "".join(output["text"]).splitlines(keepends=True)
        output["text"] = "".join(line for line in lines if not is_of_a_run(line))
    return [output for output in outputs if output.get("name") != "stdout" or output["text"]]


def is_of_a_run(line: str) -> bool:
    """Whether a line tells whose pieces are in use, or how an epoch went."""
    return bool(WHOSE.fullmatch(line) or EPOCH.fullmatch(line))


def agree(test: list[dict], ref: list[dict]) -> list[dict]:
    """The new outputs, with what may differ replaced by what is stored."""
    test = copy.deepcopy(test)
    stored, fresh = (
        [output for output in outputs if "image/png" in output.get("data", {})]
        for outputs in (ref, test)
    )
    for i, output in enumerate(fresh):
        same = i < len(stored) and same_picture(
            *(_png(one) for one in (stored[i], output)), _widths(stored[i], output)
        )
        del output["data"]["image/png"]
        output["data"]["picture"] = "as stored" if same else "NOT as stored: look at it"
    for new, old in zip(_streams(test), _streams(ref), strict=False):
        new["text"] = agree_text("".join(new["text"]), "".join(old["text"]))
    for new, old in zip(test, ref, strict=False):
        for kind in ("text/plain", "text/html"):
            if kind in new.get("data", {}) and kind in old.get("data", {}):
                new["data"][kind] = agree_text(
                    "".join(new["data"][kind]), "".join(old["data"][kind])
                )
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
    """The old text if the new one differs from it only by one unit of the last decimal, or by rows
    that agree."""
    if " % (stored: " in new:
        from mnist_vit.course.ladder.rows import ROW, agrees, same_rows

        if not agrees(new):
            return f"{new}\nfar from what is stored"
        rows = ROW.finditer(old)
        if same_rows(NUMBER.sub("#", new), NUMBER.sub("#", old)):
            new = ROW.sub(lambda _: next(rows)[0], new)
    if NUMBER.sub("#", new) != NUMBER.sub("#", old):
        return new
    for a, b in zip(NUMBER.findall(new), NUMBER.findall(old), strict=True):
        unit = 10.0 ** -len(b.partition(".")[2])
        if (
            len(a.partition(".")[2]) != len(b.partition(".")[2])
            or abs(float(a) - float(b)) > 1.01 * unit
        ):
            return new
    return old


def same_picture(stored: str, fresh: str, widths: tuple[int, int] = (0, 0)) -> bool:
    """Whether two PNG pictures, base64, show the same; ``widths`` are those at which they are
    shown, 0 for their own.

    What is drawn may lie 6 pixels elsewhere, as another release of matplotlib puts it; but whatever
    is in one picture must be near that place in the other too, and out of focus the two must look
    alike.
    """
    if stored == fresh:
        return True
    images = [
        _shown(picture, width) for picture, width in zip((stored, fresh), widths, strict=True)
    ]
    sizes = tuple(zip(*(image.size for image in images), strict=True))
    if any(max(lengths) - min(lengths) > 8 for lengths in sizes):
        return False
    a, b = (_on_paper(image, tuple(map(max, sizes))) for image in images)
    blurred = ImageChops.difference(
        *(image.filter(ImageFilter.GaussianBlur(6)) for image in (a, b))
    )
    return _largest(blurred) < 40 and _largest(_not_in(a, b)) < 64 and _largest(_not_in(b, a)) < 64


def _png(output: dict) -> str:
    return output["data"]["image/png"]


def _widths(*outputs: dict) -> tuple[int, ...]:
    return tuple(
        output.get("metadata", {}).get("image/png", {}).get("width", 0) for output in outputs
    )


def _shown(picture: str, width: int) -> Image.Image:
    """The picture with as many pixels as are seen where one has a display of plain density."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGBA")
    return image.reduce(max(1, round(image.width / width))) if width else image


def _on_paper(image: Image.Image, size: tuple[int, ...]) -> Image.Image:
    """The picture on white paper of that size, at half its size."""
    paper = Image.new("RGBA", size, "white")
    paper.alpha_composite(image)
    return paper.convert("RGB").reduce(2).filter(ImageFilter.GaussianBlur(0.6))


def _not_in(image: Image.Image, other: Image.Image) -> Image.Image:
    """How much darker or lighter each pixel is than all pixels of the other picture within 3 of its
    place."""
    darkest, lightest = (
        other.filter(ImageFilter.MinFilter(7)),
        other.filter(ImageFilter.MaxFilter(7)),
    )
    return ImageChops.add(ImageChops.subtract(image, lightest), ImageChops.subtract(darkest, image))


def _largest(image: Image.Image) -> int:
    return max(high for _, high in image.getextrema())


def _streams(outputs: list[dict]) -> list[dict]:
    return [output for output in outputs if output.get("name") == "stdout"]
