"""Write the course's address into setup cells, badges, CITATION.cff and the clone command.

The address stands in one place, ``home`` of ``[tool.hatch.metadata.hooks.custom]`` in
``pyproject.toml``. While it is empty, there are no badges, since they would lead nowhere, and the
setup cell installs a wheel that lies beside the notebook, or in a folder of the learner's Drive.
"""

import re
import tomllib

import nbformat

from . import ROOT, notebooks

PICTURE = "https://colab.research.google.com/assets/colab-badge.svg"
PLACE = "https://colab.research.google.com/github/{repository}/blob/main/notebooks/{stem}.ipynb"
BADGES = re.compile(r"\s*\[!\[Open in Colab\]\([^)]*\)\]\([^)]*\)")
SETUP = """# @title Setup: installs the course in Colab; does nothing where it is installed
import contextlib
import importlib.util
import os
import sys
from pathlib import Path

HOME = "{home}"
DRIVE = ""  # @param {{type: "string"}}
# DRIVE: a folder of your Google Drive, which may hold the course's wheel, and keeps my_vit.py
if getattr(importlib.util.find_spec("mnist_vit"), "origin", None) is None:
    folders = [Path()]
    if DRIVE and "google.colab" in sys.modules:
        with contextlib.suppress(Exception):  # refused: what is missing is said below
            from google.colab import drive

            drive.mount("/content/drive")
            folders.append(Path("/content/drive/MyDrive", DRIVE.strip("/ ")))
    # Wheels that were uploaded; the newest is the last.
    wheels = [wheel for folder in folders for wheel in folder.glob("mnist_vit-*.whl")]
    wheels.sort(key=os.path.getmtime)
    source = wheels[-1] if wheels else f"mnist-vit @ git+{{HOME}}"
    if wheels or HOME:
        %pip install -q "{{source}}"
        importlib.invalidate_caches()
if getattr(importlib.util.find_spec("mnist_vit"), "origin", None) is None:
    from IPython.core.error import UsageError

    raise UsageError(
        "the course is not installed. In Colab, upload its wheel,"
        " mnist_vit-VERSION-py3-none-any.whl, beside this notebook"
        " (https://colab.research.google.com/notebooks/io.ipynb shows how), or once, for all"
        " notebooks, to a folder of your Drive that you name in DRIVE, and"
        " run this cell again; installing needs a network. Elsewhere, run the first command of the"
        f" course's README {{HOME}}".strip()
    )
importlib.import_module("mnist_vit")  # before torch: its threads then sleep while they wait
if "google.colab" in sys.modules:
    from mnist_vit import check

    check.colab(DRIVE)"""


def home() -> str:
    """The one address, from ``pyproject.toml``; empty while there is none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["home"]


def badge(stem: str, address: str) -> str:
    """What opens a notebook in Colab; empty where the course has no address."""
    if not address:
        return ""
    repository = address.removeprefix("https://github.com/")
    return f"[![Open in Colab]({PICTURE})]({PLACE.format(repository=repository, stem=stem)})"


def stamp(notebook: nbformat.NotebookNode, stem: str, address: str) -> None:
    """Write an address into one notebook: a badge below its title, and its setup cell."""
    title, _, text = BADGES.sub("", notebook.cells[0].source).partition("\n")
    parts = [title, badge(stem, address), text.strip()]
    notebook.cells[0].source = "\n\n".join(part for part in parts if part)
    for cell in notebook.cells:
        if "setup" in cell.metadata.get("tags", []):
            cell.source = SETUP.format(home=address)
            cell.metadata.update(jupyter={"source_hidden": True}, cellView="form")


def stamp_readme(text: str, address: str) -> str:
    """The README with a badge behind the name of each notebook in its table, or without badges."""

    def with_badge(row: re.Match[str]) -> str:
        return f"{row[0]} {badge(row[1], address)}".rstrip()

    first_cell = re.compile(r"^\| \[[^]]*\]\(notebooks/(\w+)\.ipynb\)", re.MULTILINE)
    return first_cell.sub(with_badge, BADGES.sub("", text))


def stamp_citation(text: str, address: str) -> str:
    """CITATION.cff with the address below the version, or without one."""
    text = re.sub(r"^repository-code: .*\n", "", text, flags=re.MULTILINE)
    if not address:
        return text
    line = f'repository-code: "{address}"\n'
    return re.sub(r"^(version: .*\n)", lambda found: found[0] + line, text, flags=re.MULTILINE)


def stamp_clone(text: str, address: str) -> str:
    """A text whose commands clone from the address; from ADDRESS while there is none."""
    return re.sub(r"git clone [^\s`]+", f"git clone {address or 'ADDRESS'}", text)


# the files that are stamped beside the notebooks
TEXTS = {
    "README.md": (stamp_readme, stamp_clone),
    "CONTRIBUTING.md": (stamp_clone,),
    "CITATION.cff": (stamp_citation,),
}


def stamp_text(name: str, text: str, address: str) -> str:
    """The text of one of these files with the address."""
    for stamped in TEXTS[name]:
        text = stamped(text, address)
    return text


def main(words: list[str]) -> None:
    """Stamp the texts and all notebooks."""
    address = home()
    for name in TEXTS:
        path = ROOT / name
        text = stamp_text(name, path.read_text(encoding="utf-8"), address)
        path.write_text(text, encoding="utf-8")
    for path in notebooks():
        notebook = nbformat.read(path, as_version=4)
        stamp(notebook, path.stem, address)
        nbformat.write(notebook, path)
        print(f"{path.name}: {address or 'no address yet, no badge'}")
