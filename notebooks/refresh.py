"""Run notebooks from top to bottom and store their outputs: ``python notebooks/refresh.py [name.ipynb …]``.

``--solutions`` instead writes ``solutions/`` anew, from the sources of the checks, and runs nothing.

The outputs are a CPU's, offline, with the embedded digits only (and CIFAR-10 for the notebook that needs it); nothing
that depends on the machine is kept.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from conftest import NO_CIFAR10, cifar10_folder, kernel_environment, needs_cifar10
from nbclient import NotebookClient

from mnist_vit.course import exercises, rooms, solutions

HERE = Path(__file__).resolve().parent


def refresh(path: Path) -> None:
    """Run one notebook in a fresh kernel and write it back, with outputs 1 … k and no other metadata than tags."""
    notebook = nbformat.read(path, as_version=4)
    if any(needs_cifar10(cell) for cell in notebook.cells) and cifar10_folder() is None:
        raise SystemExit(f"{path.name}: {NO_CIFAR10}")
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", coalesce_streams=True, resources=where)
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
        tags = cell.metadata.get("tags")
        cell.metadata = {"tags": tags} if tags else {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                output.pop("metadata", None) if output.output_type == "stream" else output.update(metadata={})


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
    with tempfile.TemporaryDirectory(prefix="mnist_vit_") as written:
        os.environ.update(MNIST_VIT_OUT=written)
        os.environ.pop("MPLBACKEND", None)
        for path in [Path(name).resolve() for name in names] or sorted(HERE.glob("*.ipynb")):
            refresh(path)
            print(f"{path.name}: outputs stored")


if __name__ == "__main__":
    main(sys.argv[1:])
