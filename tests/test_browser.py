"""The course in a real JupyterLab in headless Chromium: ``pytest -m browser``; ``-k 02_attention``
for one notebook.

Screenshots stay in ``runs/browser/``, or in ``browser/`` under ``MNIST_VIT_OUT``.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from helpers import ROOT, environment, notebooks, pictures, read, tags

pytestmark = pytest.mark.browser
TOKEN = "course"
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
SHOTS = Path(os.environ.get("MNIST_VIT_OUT") or ROOT / "runs") / "browser"
README = (ROOT / "README.md").read_text(encoding="utf-8")

# The open notebook as JupyterLab has it: whether its kernel is at rest, and for each code cell its
# number and errors.
STATE = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    const models = panel.content.widgets.map(cell => cell.model);
    const cells = models.filter(model => model.type === 'code');
    const outputs = cells.flatMap(model => model.outputs.toJSON());
    const errors = outputs.filter(output => output.output_type === 'error');
    return [panel.sessionContext.session?.kernel?.status === 'idle',
            cells.map(model => model.executionCount),
            errors.map(error => error.ename + ': ' + error.evalue)];
}"""


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """JupyterLab started by the README's command, on the learner's copy that the command before it
    makes."""
    pytest.importorskip(
        "jupyterlab", reason='jupyterlab is not installed: pip install -e ".[course]"'
    )
    home = tmp_path_factory.mktemp("home")
    command = re.search(
        r"^\.venv/bin/(mnist-vit notebooks .*) && \.venv/bin/jupyter (lab .*)$",
        README,
        re.MULTILINE,
    )
    copy, start = command.groups()
    env = environment(
        MNIST_VIT_OUT=str(home / "out"),
        MNIST_VIT_OFFLINE="1",
        MNIST_VIT_DATA="/nowhere",
        HOME=str(home),
    )
    env |= {"TQDM_DISABLE": "1", "CUDA_VISIBLE_DEVICES": "", "TORCH_HOME": "/nowhere"}
    env |= {
        name: str(home / name)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    env.pop("MPLBACKEND", None)
    words = [sys.executable, "-m", "mnist_vit", *copy.split()[1:]]
    subprocess.run(words, cwd=home, env=env, check=True, capture_output=True)
    folder = home / copy.split()[-1]
    for path in folder.glob("*.ipynb"):  # so what is seen later was made here
        assert not any(cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells)
    shutil.copytree(ROOT / "attention", folder / "attention")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        f"--IdentityProvider.token={TOKEN}",
    ]
    options += [
        "--LabApp.expose_app_in_browser=True",
        "--ServerApp.open_browser=False",
    ]  # so that cells can be counted
    words = [sys.executable, "-m", "jupyter", *start.split(), *options]
    with open(home / "jupyter.log", "wb") as log:
        server = subprocess.Popen(words, cwd=home, env=env, stdout=log, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=5).read()
                break
            except OSError:
                assert server.poll() is None, (home / "jupyter.log").read_text()[-2000:]
                time.sleep(0.5)
        yield SimpleNamespace(address=address, folder=folder)
    finally:
        server.terminate()
        server.wait(30)


def open_in_lab(page: Any, lab: SimpleNamespace, name: str) -> None:
    page.goto(f"{lab.address}/lab/workspaces/{Path(name).stem}/tree/{name}?token={TOKEN}&reset")
    page.wait_for_function(
        "() => window.jupyterapp?.shell?.currentWidget?.context?.isReady", timeout=120_000
    )


def shot(page: Any, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_run_all_runs_all(path: Path, page: Any, lab: SimpleNamespace) -> None:
    open_in_lab(page, lab, path.name)
    page.wait_for_function(f"() => ({STATE})()[0]", timeout=120_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    deadline = time.time() + 1200
    while True:
        idle, counts, errors = page.evaluate(STATE)
        assert not errors, errors
        if idle and None not in counts:
            break
        assert time.time() < deadline, f"after 20 minutes the cells were numbered {counts}"
        time.sleep(1)
    assert counts == list(range(1, len(counts) + 1))

    cells = read(path).cells
    without = [number for number, cell in enumerate(cells) if "needs-cifar10" in tags(cell)]
    stored = [number for number, _ in pictures(path) if number not in without]
    page.keyboard.press("Control+s")
    page.wait_for_function(
        "() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=60_000
    )
    drawn = pictures(lab.folder / path.name)
    assert len(drawn) == len(stored), "as many pictures as are stored in the course's notebook"

    shot(page, path.stem)
    assert set(page.outside) <= {BADGE}, (
        "nothing but the picture of the Colab badge is asked for elsewhere"
    )


def test_the_page_in_jupyterlab(page: Any, lab: SimpleNamespace) -> None:
    open_in_lab(page, lab, "attention/index.html")
    page.get_by_text("Trust HTML", exact=True).first.click()  # until then it runs no script
    for _ in range(60):
        loaded = [frame for frame in page.frames if frame.locator("#examples button").count() >= 20]
        if loaded:
            break
        time.sleep(0.5)
    assert loaded, "no frame with the examples"
    shot(page, "page_in_jupyterlab")
    (frame,) = loaded
    frame.locator("#tour-start").click()
    told = frame.locator("#tour-where-text").inner_text()
    assert "smallest.html, beside the file of this page" in told, "the frame cannot open it"
    assert frame.locator("#tour-smallest").is_hidden()
    frame.locator("#tour-here").click()
    assert frame.locator("#tour-title").inner_text().startswith("1 of 14")
    assert page.outside == []
