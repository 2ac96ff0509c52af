"""The table of mutants fits the package, and (``pytest -m slow``) the tests notice every one of them."""

import subprocess
import sys
from pathlib import Path

import mutants
import pytest
from helpers import ROOT


def test_the_table_fits_the_package() -> None:
    """Each old line is there once, so a change of the package cannot make a mutant do nothing."""
    assert len(mutants.CHANGES) >= 60
    assert len({(change.file, change.old, change.new) for change in mutants.CHANGES}) == len(mutants.CHANGES)
    for change in mutants.CHANGES:
        text = (ROOT / "mnist_vit" / change.file).read_text(encoding="utf-8")
        assert text.count(change.old) == 1, f"{change.file} holds {text.count(change.old)} times: {change.old}"
        compile(
            text.replace(change.old, change.new), change.file, "exec"
        )  # a mutant that cannot be read proves nothing
        assert change.old != change.new


def test_the_tests_named_are_there() -> None:
    for change in mutants.CHANGES:
        for name in change.tests.split():
            file, _, start = name.partition("::")
            assert f"def {start.partition('[')[0]}" in (ROOT / "tests" / file).read_text(encoding="utf-8"), name


def test_a_copy_is_changed_and_its_tests_run(tmp_path: Path) -> None:
    """The machinery itself: without a change the tests pass, and the package here stays as it is."""
    pytest.importorskip("fcntl", reason="children are forked, which Windows cannot do")
    change = mutants.Change("files.py", "size < 1:", "size < 0:", "test_model.py::test_constructor_nonsense")
    before = (ROOT / "mnist_vit" / "files.py").read_text()
    command = f"""
import sys; sys.path.insert(0, {str(ROOT / "tests")!r})
import mutants
change = mutants.Change(*{(change.file, change.old, change.new, change.tests)!r})
print(mutants.try_change(None, change.tests), mutants.try_change(change, change.tests))
"""

    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.stdout.splitlines()[-1:] == ["survived caught"], done.stdout + done.stderr
    assert (ROOT / "mnist_vit" / "files.py").read_text() == before


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(mutants.CHANGES)))
def test_mutant_is_caught(number: int) -> None:

    command = [sys.executable, ROOT / "tests" / "mutants.py", "--only", str(number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
