"""What the tests share: real data where it is at hand, a torchvision model beside ours, a place to
write, a browser."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Two processes share the machine: one thread each, in kernels and other children too. Before torch
# is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest

from mnist_vit.files import data_dir


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is downloaded, and nothing is written outside the test's own folder."""
    monkeypatch.setenv("MNIST_VIT_OFFLINE", "1")
    monkeypatch.setenv("MNIST_VIT_OUT", str(tmp_path))
    monkeypatch.setenv("TQDM_DISABLE", "1")


@pytest.fixture
def real_mnist() -> Path:
    """The folder with the official MNIST files; skips, with the reason, where there is none."""
    if not (data_dir() / "MNIST" / "raw").is_dir():
        pytest.skip(f"the official MNIST files are not in {data_dir()} (set MNIST_VIT_DATA)")
    return data_dir()


@pytest.fixture
def real_cifar10() -> Path:
    """The folder with CIFAR-10; skips, with the reason, where there is none."""
    if not any((data_dir() / name).exists() for name in ("cifar10.zip", "cifar-10-batches-py")):
        pytest.skip(f"CIFAR-10 is not in {data_dir()} (set MNIST_VIT_DATA)")
    return data_dir()


HERE = re.compile(r"(https?|wss?)://(localhost|127\.0\.0\.1)[:/]|file:|data:|blob:|about:")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium; skips, with the reason, where there is none."""
    api = pytest.importorskip(
        "playwright.sync_api", reason='playwright is not installed: pip install -e ".[browser]"'
    )
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = os.environ.get("MNIST_VIT_CHROMIUM") or next(
        filter(None, map(shutil.which, names)), None
    )
    with api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(
                "no Chromium: apt install chromium, or playwright install chromium"
                f" ({str(error)[:80]})"
            )
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A tab from which no request leaves the machine: such requests are blocked, and listed in
    ``page.outside``."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    outside: list[str] = []

    def guard(route: Any) -> None:
        if HERE.match(route.request.url):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    context.route("**/*", guard)
    context.set_default_timeout(120_000)  # milliseconds; a busy machine is slow
    page = context.new_page()
    page.outside = outside
    yield page
    context.close()


# Files that take longest, from the longest on; CPU seconds on one core, of both tiers together.
LONG = (
    "test_solved.py",
    "test_solved_later.py",
    "test_course.py",
    "test_survival.py",
    "test_tasks.py",
    "test_learners_copy.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, then notebooks, then all others: each of two processes takes the next file
    when it has none, and with the short ones last neither waits long for the other."""
    items.sort(key=turn)


def turn(item: pytest.Item) -> int:
    """The place of a test's file in that order."""
    if item.path.name in LONG:
        return LONG.index(item.path.name)
    return len(LONG) + (item.path.suffix != ".ipynb")


LEFT_OUT: dict[str, int] = {}  # how many tests of each round were not chosen
ROUNDS = {
    "browser": "{} more tests are a round of their own: pytest -m browser",
    "colab": "{} more tests are a round of their own: pytest -m colab",
    "full": "{} more tests are a round of their own: pytest -m full",
    "long": "{} cells that train for long run in the solved notebooks only: pytest -m full",
}


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count them: in a worker of pytest-xdist, whose summary nobody reads, or here."""
    for name in ROUNDS:
        LEFT_OUT[name] = LEFT_OUT.get(name, 0) + sum(
            item.get_closest_marker(name) is not None for item in items
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker sends what it counted."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = LEFT_OUT


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker has seen all tests, so one count is enough."""
    LEFT_OUT.update(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped, and why, also when it is none; and which rounds are commands
    of their own."""
    skipped = terminalreporter.stats.get("skipped", [])
    terminalreporter.section(f"{len(skipped)} tests skipped")
    for reason in sorted({str(report.longrepr[2]) for report in skipped}):
        terminalreporter.write_line(reason)
    for name, count in LEFT_OUT.items():
        if count:
            terminalreporter.write_line(ROUNDS[name].format(count))
