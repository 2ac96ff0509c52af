"""Write the repository's address into setup cells and badges, the README's too: ``python notebooks/stamp.py``.

The address stands in one place, ``[project.urls]`` of ``pyproject.toml``. Until the project has a home it is one that
nobody can register, because account names have no dots; the setup cell then says what to do instead.
"""

import re
import tomllib
from pathlib import Path

import nbformat

HERE = Path(__file__).resolve().parent
BADGE = "https://colab.research.google.com/github/{owner_and_name}/blob/main/notebooks/{stem}.ipynb"
BADGE_ANYWHERE = re.compile(r"https://colab\.research\.google\.com/github/[^\s)]+")
SETUP = """# @title Setup: installs the course in Colab; does nothing where it is installed
import importlib.util
import sys

SOURCE = "git+{repository}"
DRIVE = ""  # @param {{type: "string"}}
if importlib.util.find_spec("mnist_vit") is None:
    if "no.home.yet" in SOURCE:
        raise SystemExit("mnist_vit is not installed: run the first command of its README")
    %pip install -q "mnist-vit @ {{SOURCE}}"
    importlib.invalidate_caches()
    if importlib.util.find_spec("mnist_vit") is None:
        raise SystemExit("mnist_vit could not be installed: is there a network?")
if "google.colab" in sys.modules:  # where my_vit.py is kept: DRIVE names a folder of yours
    from mnist_vit import check

    check.colab(DRIVE)"""


def repository() -> str:
    """The one address, from ``pyproject.toml``."""
    return tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["urls"]["Repository"]


def stamp(notebook: nbformat.NotebookNode, stem: str, address: str) -> None:
    """Write an address into one notebook: its badge and the source of its setup cell."""
    badge = BADGE.format(owner_and_name=address.removeprefix("https://github.com/"), stem=stem)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = BADGE_ANYWHERE.sub(badge, cell.source)
        elif "setup" in cell.metadata.get("tags", []):
            cell.source = SETUP.format(repository=address)
            cell.metadata.update(jupyter={"source_hidden": True}, cellView="form")


def stamp_readme(text: str, address: str) -> str:
    """The README with an address in its badges; each keeps its notebook."""

    def badge(found: re.Match[str]) -> str:
        return BADGE.format(owner_and_name=address.removeprefix("https://github.com/"), stem=Path(found[0]).stem)

    return BADGE_ANYWHERE.sub(badge, text)


def main() -> None:
    """Stamp the README and all notebooks."""
    address = repository()
    readme = HERE.parent / "README.md"
    readme.write_text(stamp_readme(readme.read_text(encoding="utf-8"), address), encoding="utf-8")
    for path in sorted(HERE.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        stamp(notebook, path.stem, address)
        nbformat.write(notebook, path)
        print(f"{path.name}: {address}")


if __name__ == "__main__":
    main()
