"""All stored outputs, again and again and under other circumstances (``pytest -m slow``): never a difference.

``MNIST_VIT_STEADY="00_*.ipynb" pytest -m slow tests/test_steady.py`` tries these notebooks only.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import NOTEBOOKS, ROOT

CHOSEN = os.environ.get("MNIST_VIT_STEADY", "[0-9][0-9]_*.ipynb")
PLACES: dict[str, dict[str, str]] = {
    "one thread": {"OMP_NUM_THREADS": "1"},
    "all threads": {},
    "no vector instructions": {"ATEN_CPU_CAPABILITY": "default"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "plain ASCII": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-8"},
    "far east": {"LC_ALL": "ja_JP.UTF-8", "LANGUAGE": "ja", "TZ": "Pacific/Kiritimati"},
    "far west, comma for a point": {"LC_ALL": "de_DE.UTF-8", "TZ": "Pacific/Pago_Pago"},
}

pytestmark = pytest.mark.slow


def copy_course(folder: Path) -> Path:
    """A checkout of one's own."""
    for name in ("mnist_vit", "notebooks", "weights", "attention"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def start(course: Path, wrapper: tuple[str, ...] = (), **extra: str) -> subprocess.Popen:
    """nbval on the notebooks of a checkout, in a process of its own."""
    names = sorted(str(path) for path in (course / "notebooks").glob(CHOSEN))
    assert names
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(course), "-o", "addopts=", "--tb=short"]
    nbval = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=900"]
    kept = {key: value for key, value in os.environ.items() if key not in ("OMP_NUM_THREADS", "MNIST_VIT_OUT")}
    return subprocess.Popen(
        [*wrapper, sys.executable, "-m", "pytest", *options, *nbval, *names],
        cwd=course,
        env={**kept, "PYTHONPATH": str(course), "PYTHONDONTWRITEBYTECODE": "1", **extra},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def assert_steady(*running: subprocess.Popen) -> None:
    """All of them end, and every cell gives what is stored."""
    for process in running:
        told = process.communicate(timeout=4 * 3600)[0]
        assert process.returncode == 0, told[-5000:]
        assert " passed" in told
        print(told.splitlines()[-1])


@pytest.mark.parametrize("number", range(1, 11))
def test_ten_times(number: int) -> None:
    assert_steady(start(ROOT))


@pytest.mark.parametrize("place", PLACES)
def test_elsewhere(place: str) -> None:
    assert_steady(start(ROOT, **PLACES[place]))


def test_a_path_with_spaces(tmp_path: Path) -> None:
    assert_steady(start(copy_course(tmp_path / "my own Kurs, größer 数字")))


def test_two_at_the_same_time() -> None:
    assert_steady(start(ROOT), start(ROOT))


def test_read_only_checkout(tmp_path: Path) -> None:
    """Nothing may be written beside the notebooks: neither by the package nor by the comparison."""
    course = copy_course(tmp_path / "course")
    if getattr(os, "geteuid", lambda: 1)() != 0:
        for path in [*course.rglob("*"), course]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            assert_steady(start(course))
        finally:
            for path in [course, *course.rglob("*")]:
                path.chmod(0o755)
        return
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && ! touch "$0/x" 2>/dev/null && exec "$@"'
    wrapper = ("unshare", "--mount", "sh", "-c", mount, str(course))
    if shutil.which("unshare") is None or subprocess.run([*wrapper, "true"], capture_output=True).returncode != 0:
        pytest.skip("root is not held back by permissions, and a read-only mount is not possible here")
    assert_steady(start(course, wrapper))


def test_the_chosen_notebooks_are_all_of_them() -> None:
    """Unless some were asked for."""
    if "MNIST_VIT_STEADY" not in os.environ:
        assert len(list(NOTEBOOKS.glob(CHOSEN))) >= 11
