"""All stored outputs under other circumstances (``pytest -m slow``): no difference, and nothing written beside them.

``MNIST_VIT_STEADY="00_*.ipynb" pytest -m slow tests/test_steady.py`` tries these notebooks only.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

CHOSEN = os.environ.get("MNIST_VIT_STEADY", "[0-9][0-9]_*.ipynb")
PLACES: dict[str, dict[str, str]] = {
    "one thread": {"OMP_NUM_THREADS": "1"},
    "no vector instructions": {"ATEN_CPU_CAPABILITY": "default"},
    "plain ASCII": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-8"},
    "far west, comma for a point": {"LC_ALL": "de_DE.UTF-8", "TZ": "Pacific/Pago_Pago"},
}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_outputs_are_those_stored(place: str, tmp_path: Path) -> None:
    course = tmp_path / "my own Kurs, größer 数字"
    for name in ("mnist_vit", "notebooks", "weights", "attention"):
        shutil.copytree(ROOT / name, course / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", course)
    before = {path: path.stat().st_mtime_ns for path in course.rglob("*")}
    names = sorted(map(str, (course / "notebooks").glob(CHOSEN)))
    kept = {key: value for key, value in os.environ.items() if key not in ("OMP_NUM_THREADS", "MNIST_VIT_OUT")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(course)]
    command += ["-o", "addopts=", "--tb=short", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=900", *names]
    env = {**kept, "PYTHONPATH": str(course), "PYTHONDONTWRITEBYTECODE": "1", **PLACES[place]}
    done = subprocess.run(command, cwd=course, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert {path: path.stat().st_mtime_ns for path in course.rglob("*")} == before, "nothing is written beside them"
