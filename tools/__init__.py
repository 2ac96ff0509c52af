"""For maintainers: ``python -m tools`` lists the commands."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"


def notebooks() -> list[Path]:
    """All notebooks of the course, in its order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
