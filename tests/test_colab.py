"""Each notebook alone, as in Colab: ``pytest -m colab``; ``-k 02_attention`` for one.

A fresh environment holds what Colab's own has of what the course uses (IPython and ipykernel of the
versions that stand there), and neither this package nor torchinfo and mlxtend. A notebook is copied
into an empty folder, with a wheel made here beside it, and run from top to bottom; its setup cell
installs the wheel. What pip brought is taken away again before the next one.

The environment is made in ``runs/colab/`` once, in minutes and some 6 GB; ``MNIST_VIT_COLAB`` names
another one.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import pytest
from helpers import NOTEBOOKS, ROOT, assert_says, code_cells, environment, from_file, notebooks
from nbclient import NotebookClient

from mnist_vit import check
from tools import stamp

colab_module = sys.modules[
    "mnist_vit.course.keeping.colab"
]  # the package has a function of that name

THERE = [
    "torch",
    "torchvision",
    "numpy",
    "matplotlib",
    "scikit-learn",
    "pillow",
    "tqdm",
    "tensorboard",
    "pandas",
]
KERNEL = ["ipython==7.34.0", "ipykernel==6.17.1"]  # what Colab has run for years
NOT_THERE = {"mnist-vit", "torchinfo", "mlxtend"}
SOLUTION = (NOTEBOOKS / "solutions" / "02_attention.py").read_text(encoding="utf-8")


def pip(python: Path, *words: str) -> str:
    done = subprocess.run(
        [python, "-m", "pip", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return done.stdout


def installed(python: Path) -> dict[str, str]:
    """Name and version of every package."""
    lines = pip(python, "list", "--format=freeze", "--disable-pip-version-check").splitlines()
    return {
        name.lower().replace("_", "-"): version
        for name, _, version in (line.partition("==") for line in lines)
    }


@pytest.fixture(scope="session")
def colab() -> Path:
    """The Python of an environment like Colab's; made, if it is not there yet."""
    place = Path(os.environ.get("MNIST_VIT_COLAB") or ROOT / "runs" / "colab")
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        try:
            pip(python, "install", "-q", "-c", str(ROOT / "constraints.txt"), *THERE)
            pip(python, "install", "-q", *KERNEL)
        except AssertionError as error:
            pytest.skip(f"an environment like Colab's could not be made: {str(error)[-200:]}")
    return python


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel made here."""
    folder = tmp_path_factory.mktemp("wheel")
    pip(Path(sys.executable), "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


def run(notebook: nbformat.NotebookNode, python: Path, folder: Path) -> None:
    """Run a notebook in an empty folder with that Python; raises CellExecutionError where a cell
    fails."""
    kernel = folder.parent / "kernels" / "colab"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(
        f'{{"argv": ["{python.as_posix()}", "-m", "ipykernel_launcher", "-f",'
        ' "{connection_file}"], "display_name": "Colab", "language": "python"}'
    )
    kept = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = str(folder.parent)
    env = environment(
        MNIST_VIT_OUT="", MNIST_VIT_DATA="", MNIST_VIT_OFFLINE="1", TORCH_HOME="/nowhere"
    )
    env.pop("PYTHONPATH", None)
    env.pop("MPLBACKEND", None)
    env |= {"CUDA_VISIBLE_DEVICES": "", "PATH": f"{python.parent}{os.pathsep}{env['PATH']}"}
    where = {"metadata": {"path": str(folder)}}
    try:
        NotebookClient(notebook, timeout=1200, kernel_name="colab", resources=where).execute(
            env=env
        )
    finally:
        os.environ.pop("JUPYTER_PATH")
        if kept is not None:
            os.environ["JUPYTER_PATH"] = kept


@pytest.mark.colab
@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_runs_alone(path: Path, colab: Path, wheel: Path, tmp_path: Path) -> None:
    before = installed(colab)
    assert not NOT_THERE & set(before), (
        f"{colab} is not like Colab's: it has {NOT_THERE & set(before)}"
    )
    folder = tmp_path / "alone" / "content"
    folder.mkdir(parents=True)
    shutil.copy(wheel, folder)
    notebook = nbformat.read(path, as_version=4)
    stamp.stamp(notebook, path.stem, "")
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:
        cell.outputs, cell.execution_count = [], None
    try:
        run(notebook, colab, folder)
        now = installed(colab)
    finally:  # what came is taken away again
        pip(colab, "uninstall", "-q", "-y", *NOT_THERE)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert all(output.output_type != "error" for output in cell.outputs)
    changed = {
        name: (version, now.get(name))
        for name, version in before.items()
        if now.get(name) != version
    }
    assert changed == {}, "the course leaves alone what Colab brings"
    assert now.keys() - before.keys() == NOT_THERE, "and brings two small packages beside itself"


FAKE_DRIVE = """
import os
import sys
from pathlib import Path

def mount(place):  # what the course looks at is the folder that the test made
    course = sys.modules.get("mnist_vit.course.keeping.colab")
    if course is not None:
        course.DRIVE = Path(os.environ["FAKE_DRIVE"])
"""


@pytest.mark.colab
def test_one_upload_to_drive_serves_all_notebooks(
    colab: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel lies in a folder of Drive, once; my_vit.py goes there, and the next machine uses
    both."""
    place = tmp_path / "drive" / "MyDrive" / "vit"
    place.mkdir(parents=True)
    shutil.copy(wheel, place)
    google = tmp_path / "modules" / "google"
    (google / "colab").mkdir(parents=True)
    (google / "__init__.py").touch()
    (google / "colab" / "__init__.py").touch()
    (google / "colab" / "drive.py").write_text(FAKE_DRIVE, encoding="utf-8")
    monkeypatch.setenv("FAKE_DRIVE", str(tmp_path / "drive"))

    opened = f"import sys\nsys.path.insert(0, {str(google.parent)!r})\nimport google.colab"
    drive = str(tmp_path / "drive")
    cell = stamp.SETUP.format(home="").replace('DRIVE = ""', 'DRIVE = "vit"')
    cell = cell.replace("/content/drive", drive)
    solve = f"from mnist_vit import check\n{SOLUTION}\ncheck.attention(my_attention)"
    told = []
    for number, work in enumerate((solve, "check.my_vit()")):
        folder = tmp_path / f"machine{number}" / "content"
        folder.mkdir(parents=True)
        notebook = nbformat.v4.new_notebook()
        for source in (opened, cell, work):
            notebook.cells.append(nbformat.v4.new_code_cell(source))
        try:
            run(notebook, colab, folder)
        finally:
            pip(colab, "uninstall", "-q", "-y", *NOT_THERE)
        told.append("".join(output.get("text", "") for output in notebook.cells[2].outputs))
        assert list(folder.iterdir()) == []
    assert "attention: correct" in told[0]
    assert told[1].startswith("my_vit.py: yours: my_attention; ")


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_nothing_that_colab_has_not(path: Path) -> None:
    """In the usual run: no widgets, no magic but pip, no other module than Colab's, the standard
    library's and ours."""
    known = {name.replace("scikit-learn", "sklearn").replace("pillow", "PIL") for name in THERE}
    known |= {"scipy", "IPython"}  # which scikit-learn and the kernel bring
    known |= {"google"}  # in Colab
    known |= {"timm", "transformers"}  # compared with in notebook 11, where they are installed
    known |= {"mnist_vit", "my_vit", "torchinfo", "mlxtend", *sys.stdlib_module_names}
    for cell in code_cells(path):
        magics = re.findall(r"^\s*([%!]\w*)", cell.source, re.MULTILINE)
        assert magics in ([], ["%pip"]), cell.source
        tree = ast.parse(re.sub(r"^(\s*)[%!].*$", r"\1pass", cell.source, flags=re.MULTILINE))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.partition(".")[0] in known, name
                assert not re.search(r"widget|tqdm\.(auto|notebook)", name), name


# ------------------------------------------------------------------- my_vit.py, with a google.colab
# that is made up


@pytest.fixture
def in_colab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list]:
    """A google.colab whose Drive is a folder and which notes what was mounted and downloaded."""
    done: dict[str, list] = {"mounted": [], "downloaded": []}
    google, module = ModuleType("google"), ModuleType("google.colab")
    google.colab = module
    module.drive = SimpleNamespace(mount=done["mounted"].append)
    module.files = SimpleNamespace(download=done["downloaded"].append)
    monkeypatch.setitem(sys.modules, "google", google)
    monkeypatch.setitem(sys.modules, "google.colab", module)
    monkeypatch.setattr(colab_module, "DRIVE", tmp_path / "drive")
    monkeypatch.setenv("MNIST_VIT_OUT", "")
    content = tmp_path / "content"
    content.mkdir()
    monkeypatch.chdir(content)
    monkeypatch.delitem(sys.modules, "my_vit", raising=False)
    return done


def setup(drive: str = "") -> None:
    """Run the setup cell."""
    text = stamp.SETUP.format(home="https://example.org").replace(
        'DRIVE = ""', f"DRIVE = {drive!r}"
    )
    exec(re.sub(r"^( +)%pip.*$", r"\1pass", text, flags=re.MULTILINE), {})


def answer(folder: Path) -> object:
    """A right answer, from a file."""
    (folder / "answers_of_mine.py").write_text(SOLUTION, encoding="utf-8")
    return from_file(folder / "answers_of_mine.py").my_attention


def test_setup_says_nothing_outside_colab(capsys: pytest.CaptureFixture) -> None:
    setup()
    assert capsys.readouterr().out == ""


def test_two_machines_with_a_download_between(
    in_colab: dict[str, list],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup()
    out = capsys.readouterr().out
    assert_says(out, "my_vit.py upload")
    assert out.count("\n") == 1
    check.download()
    assert_says(capsys.readouterr().out, "my_vit.py content")
    assert in_colab["downloaded"] == []
    check.attention(answer(tmp_path))
    check.download()
    (file,) = in_colab["downloaded"]
    assert Path(file) == tmp_path / "content" / "my_vit.py"

    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "my_vit.py").write_text(Path(file).read_text())
    monkeypatch.chdir(tmp_path / "next")
    setup()
    assert_says(capsys.readouterr().out, "my_vit.py uploaded")
    check.my_vit()
    assert capsys.readouterr().out.startswith("my_vit.py: yours: my_attention; ours: my_patchify, ")


def test_a_folder_of_drive_lasts(
    in_colab: dict[str, list], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    setup("/courses/vit/")
    place = tmp_path / "drive" / "MyDrive" / "courses" / "vit"
    assert in_colab["mounted"] == [str(tmp_path / "drive")]
    assert_says(capsys.readouterr().out, f"my_vit.py {place}")
    check.attention(answer(tmp_path))
    assert "def my_attention" in (place / "my_vit.py").read_text()
    setup("courses/vit")
    assert_says(capsys.readouterr().out, f"my_vit.py {place}")


def test_a_wheel_in_drive_is_installed(
    in_colab: dict[str, list], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the course is not installed, the wheel may lie in the folder of Drive."""
    place = tmp_path / "drive" / "MyDrive" / "vit"
    place.mkdir(parents=True)
    (place / "mnist_vit-1.0.0-py3-none-any.whl").touch()
    asked: list[str] = []
    found = SimpleNamespace(origin="mnist_vit/__init__.py")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found if asked else None)
    cell = stamp.SETUP.format(home="").replace('DRIVE = ""', 'DRIVE = "/vit/"')
    cell = cell.replace("/content/drive", str(tmp_path / "drive"))
    cell = cell.replace('%pip install -q "{source}"', "asked.append(str(source))")
    exec(compile(cell, "setup", "exec"), {"asked": asked})
    assert asked == [str(place / "mnist_vit-1.0.0-py3-none-any.whl")]
    assert set(in_colab["mounted"]) == {str(tmp_path / "drive")}


def test_drive_refused(in_colab: dict[str, list], capsys: pytest.CaptureFixture) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("mount failed")

    sys.modules["google.colab"].drive.mount = refuse
    setup("vit")
    assert_says(capsys.readouterr().out, "my_vit.py Drive mount failed")
    assert os.environ["MNIST_VIT_OUT"] == ""
