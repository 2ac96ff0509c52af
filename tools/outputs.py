"""Run notebooks from top to bottom and store their outputs.

The outputs are a CPU's, offline, with the embedded digits only (and CIFAR-10 for the notebook that
needs it); nothing that depends on the machine is kept. A cell keeps its id. Of its metadata its
tags stay, and what collapses it; pictures are stored with the size at which they are shown and at
most 256 colours.
"""

import base64
import importlib.util
import io
import os
import re
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

from . import NOTEBOOKS, notebooks

COLLAPSED = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # in JupyterLab, in Colab
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def main(words: list[str]) -> None:
    """Refresh the notebooks named, or all of them."""
    paths = [Path(word).resolve() for word in words] or notebooks()
    with tempfile.TemporaryDirectory(prefix="mnist_vit_") as written:
        folder = Path(written) / "notebooks"  # the name that check.my_vit() prints
        folder.mkdir()
        os.environ["MNIST_VIT_OUT"] = str(folder)
        os.environ.pop("MPLBACKEND", None)
        for path in paths:
            refresh(path)
            print(f"{path.name}: outputs stored")


def conftest() -> ModuleType:
    """``notebooks/conftest.py``, which says in what environment a kernel runs."""
    spec = importlib.util.spec_from_file_location(
        "conftest_of_notebooks", NOTEBOOKS / "conftest.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def refresh(path: Path) -> None:
    """Run one notebook in a fresh kernel and write it back."""
    nbval = conftest()
    notebook = nbformat.read(path, as_version=4)
    needy = any(nbval.needs_cifar10(cell) for cell in notebook.cells)
    if needy and nbval.cifar10_folder() is None:
        raise SystemExit(f"{path.name}: {nbval.NO_CIFAR10}")
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute(env={**os.environ, **nbval.kernel_environment(notebook)})
    drop_epochs(notebook, nbval.EPOCH)
    clean(notebook, path.stem, nbval.PAGE)
    nbformat.write(notebook, path)


def drop_epochs(notebook: nbformat.NotebookNode, line: re.Pattern[str]) -> None:
    """Drop the lines of epochs, which hold times, and outputs of which nothing is left."""
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        for output in outputs:
            if output.get("name") == "stdout":
                lines = "".join(output.text).splitlines(keepends=True)
                output.text = "".join(one for one in lines if not line.fullmatch(one))
        if outputs:
            cell.outputs = [one for one in outputs if one.get("text", "kept")]


def clean(notebook: nbformat.NotebookNode, stem: str, page: str) -> None:
    """Drop what differs from run to run or machine to machine."""
    notebook.metadata = METADATA
    notebook.nbformat = 4
    notebook.nbformat_minor = 5
    give_ids(notebook.cells, stem)
    for cell in notebook.cells:
        cell.metadata = kept_metadata(cell.metadata)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                clean_output(output, page)


def give_ids(cells: list[nbformat.NotebookNode], stem: str) -> None:
    """Give an id to a cell that has none, or that of a cell before it; the others keep theirs."""
    prefix = re.sub(r"[^a-z0-9]+", "-", stem.lower())
    taken = {cell.get("id") for cell in cells}
    seen: set[str] = set()
    number = 0
    for cell in cells:
        if not cell.get("id") or cell.id in seen:
            while f"{prefix}-{number:03d}" in taken:
                number += 1
            cell.id = f"{prefix}-{number:03d}"
            taken.add(cell.id)
        seen.add(cell.id)


def kept_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Tags, and what collapses a cell; nothing else, whatever an editor has put there."""
    kept: dict[str, Any] = {}
    if metadata.get("tags"):
        kept["tags"] = list(metadata["tags"])
    if metadata.get("jupyter", {}).get("source_hidden") or metadata.get("cellView") == "form":
        kept |= COLLAPSED
    return kept


def clean_output(output: nbformat.NotebookNode, page: str) -> None:
    """Keep the size of a picture, and the live page as where scripts are stripped."""
    if output.output_type == "stream":
        output.pop("metadata", None)
        return
    size = output.metadata.get("image/png", {})
    size = {key: size[key] for key in ("width", "height") if key in size}
    output.metadata = {"image/png": size} if size else {}
    html = output.data.get("text/html", "")
    if page in html:
        without_frame = re.sub(r"<iframe.*?</iframe>", "", html, flags=re.DOTALL)
        output.data = {"text/html": without_frame, "text/plain": "the live page"}
    if "image/png" in output.data:
        output.data["image/png"] = smaller(output.data["image/png"])


def smaller(stored: str) -> str:
    """A PNG picture, base64, with at most 256 colours, on white; none of its colours moves far."""
    image = Image.open(io.BytesIO(base64.b64decode(stored)))
    if image.mode == "P":
        return stored
    image = image.convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    paper.alpha_composite(image)
    few_colours = paper.convert("RGB").quantize(
        256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    )
    file = io.BytesIO()
    few_colours.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()
