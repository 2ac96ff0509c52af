"""Run notebooks from top to bottom and store their outputs: ``python -m tools outputs
[name.ipynb …]``.

``--solutions`` instead writes ``solutions/`` anew, from the sources of the checks, and runs
nothing. ``--count`` prints how much there is to read and to do in each notebook, and the minutes
that follow from it; ``--count --write`` also puts the minutes where they are told: in the
notebooks, in 00's table and in the README's.

The outputs are a CPU's, offline, with the embedded digits only (and CIFAR-10 for the notebook that
needs it); nothing that depends on the machine is kept. Of a cell's metadata its tags stay, and what
collapses it; pictures are stored with the size at which they are shown and at most 256 colours.
"""

import base64
import io
import os
import re
import sys
import tempfile
from pathlib import Path

import counting
import nbformat
from conftest import NO_CIFAR10, PAGE, cifar10_folder, kernel_environment, needs_cifar10
from nbclient import NotebookClient
from PIL import Image

from mnist_vit.course import exercises, rooms, solutions

HERE = Path(__file__).resolve().parent
COLLAPSED = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # in JupyterLab, in Colab


def refresh(path: Path) -> None:
    """Run one notebook in a fresh kernel and write it back, with outputs 1 … k and no other
    metadata than ours."""
    notebook = nbformat.read(path, as_version=4)
    if any(needs_cifar10(cell) for cell in notebook.cells) and cifar10_folder() is None:
        raise SystemExit(f"{path.name}: {NO_CIFAR10}")
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", coalesce_streams=True, resources=where
    )
    client.execute(env={**os.environ, **kernel_environment(notebook)})
    clean(notebook, path.stem)
    nbformat.write(notebook, path)


def clean(notebook: nbformat.NotebookNode, stem: str) -> None:
    """Drop what differs from run to run or machine to machine."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{re.sub(r'[^a-z0-9]+', '-', stem.lower())}-{number:03d}"
        cell.metadata = kept_metadata(cell.metadata)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if output.output_type == "stream":
                    output.pop("metadata", None)
                    continue
                size = output.metadata.get("image/png", {})
                size = {key: size[key] for key in ("width", "height") if key in size}
                output.metadata = {"image/png": size} if size else {}
                if PAGE in output.data.get("text/html", ""):  # stored as where scripts are stripped
                    page = re.sub(
                        r"<iframe.*?</iframe>", "", output.data["text/html"], flags=re.DOTALL
                    )
                    output.data = {"text/html": page, "text/plain": "the live page"}
                if "image/png" in output.data:
                    output.data["image/png"] = smaller(output.data["image/png"])


def kept_metadata(metadata: dict) -> dict:
    """Tags, and what collapses a cell; nothing else, whatever an editor has put there."""
    kept = {"tags": list(metadata["tags"])} if metadata.get("tags") else {}
    hidden = metadata.get("jupyter", {}).get("source_hidden") or metadata.get("cellView") == "form"
    return kept | (COLLAPSED if hidden else {})


def smaller(stored: str) -> str:
    """A PNG picture, base64, with a palette of at most 256 colours, on white; none of its colours
    moves far."""
    image = Image.open(io.BytesIO(base64.b64decode(stored)))
    if image.mode == "P":
        return stored
    image = image.convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    paper.alpha_composite(image)
    file = io.BytesIO()
    flat = paper.convert("RGB").quantize(
        256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    )
    flat.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def write_solutions() -> None:
    """One file per notebook that has exercises."""
    for room in rooms():
        if exercises(room):
            (HERE / "solutions" / f"{room}.py").write_text(solutions(room), encoding="utf-8")


def main(names: list[str]) -> None:
    """Refresh the notebooks named, or all of them."""
    if names == ["--solutions"]:
        write_solutions()
        return
    if names[:1] == ["--count"]:
        counting.main(names[1:])
        return
    with tempfile.TemporaryDirectory(prefix="mnist_vit_") as written:
        (folder := Path(written) / "notebooks").mkdir()  # the name that check.my_vit() prints
        os.environ.update(MNIST_VIT_OUT=str(folder))
        os.environ.pop("MPLBACKEND", None)
        for path in [Path(name).resolve() for name in names] or sorted(HERE.glob("*.ipynb")):
            refresh(path)
            print(f"{path.name}: outputs stored")


if __name__ == "__main__":
    main(sys.argv[1:])
