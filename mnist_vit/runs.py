"""The folder of a training: its settings, metrics, last two checkpoints and TensorBoard's files."""

import copy
import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .console import say
from .errors import WeightsError, check_sizes
from .files import PARTS, locked, read_file, user_path, write_atomic, write_json, write_text

__all__ = ["RunFolder", "newest_checkpoint"]

CHECKPOINT = "checkpoint.pth"
PREVIOUS = "checkpoint_previous.pth"
# may differ when a run is resumed; version 1.0.0 stored the last two
FREE = ("epochs", "checkpoint_every", "tensorboard")
Rows = list[dict[str, float]]


class RunFolder:
    """The folder of a run; without a path, nothing is written and nothing is resumed.

    Args:
        path: the folder, or None.
        settings: of the run; stored in config.json, and compared when the run is resumed.
        writes: whether this process writes and prints; one of several does.
        checkpoint_every: epochs between checkpoints.
        tensorboard: also write curves for TensorBoard.
    """

    def __init__(
        self,
        path: str | Path | None,
        settings: dict[str, Any],
        writes: bool = True,
        checkpoint_every: int = 1,
        tensorboard: bool = False,
    ) -> None:
        check_sizes(checkpoint_every=checkpoint_every)
        self.path = None if path is None else user_path(path)
        self.settings = json.loads(json.dumps(settings))  # as they will be read
        self.writes = writes
        self.checkpoint_every = checkpoint_every
        self.tensorboard = tensorboard
        self.writer: Any = None

    @property
    def checkpoint(self) -> Path | None:
        """The newest checkpoint."""
        return None if self.path is None else newest_checkpoint(self.path)

    def check(self, resume: bool) -> None:
        """Raise ValueError if the folder is missing, or if it has no run to resume."""
        if self.path is None:
            if resume or self.tensorboard:
                raise ValueError(
                    "resume=True and tensorboard=True need a run_dir, the folder of the run"
                )
        elif resume and not (self.path / "config.json").exists() and not self.checkpoint:
            raise ValueError(
                f"there is no run to resume in {self.path}: name another folder, or omit"
                " resume=True"
            )
        elif not self.checkpoint and not _is_free(self.path):
            raise ValueError(
                f"{self.path} holds files called like those of a run, and no run: name another"
                " folder"
            )

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lock the folder until the end of the ``with`` block."""
        if self.path is None or not self.writes:
            yield
        else:
            with locked(self.path):
                yield

    def begin(self, state: dict[str, Any], resume: bool) -> Rows:
        """Start a new run, or load a checkpoint into ``state``. Returns the epochs already run."""
        history: Rows = []
        if self.checkpoint:
            if not resume:
                raise ValueError(
                    f"{self.path} already contains a run: name another folder, or set resume=True"
                )
            history = self._resume(state)
        elif resume and self.writes:
            say(f"{self.path} has no checkpoint yet: the run starts from the beginning")
        if self.path is not None and self.writes:
            for part in self.path.glob(PARTS):  # of a run that was killed
                if part.is_file():
                    part.unlink()
            write_json(self.path / "config.json", self.settings)
            self._write({}, history)
            self._open_writer()
        return history

    def _open_writer(self) -> None:
        if self.tensorboard:
            from torch.utils.tensorboard import SummaryWriter  # ImportError if it is not installed

            self.writer = SummaryWriter(str(self.path))

    def save(self, state: dict[str, Any], history: Rows) -> None:
        """Write metrics and curves after an epoch, and a checkpoint if one is due."""
        if self.path is None or not self.writes:
            return
        epoch = len(history)
        due = epoch % self.checkpoint_every == 0 or epoch == self.settings["epochs"]
        self._write(state | {"settings": self.settings} if due else {}, history)

    def _write(self, state: dict[str, Any], history: Rows) -> None:
        """Write; if the disk is full or read-only, warn, and training continues."""
        folder: Any = self.path
        try:
            if state:
                content = {name: _content(part) for name, part in state.items()}
                content["history"] = history
                content["sha256"] = _digest(content)
                write_atomic(
                    folder / CHECKPOINT,
                    lambda file: torch.save(content, file),
                    before=folder / PREVIOUS,
                )
            lines = [json.dumps(row) + "\n" for row in history]
            write_text(folder / "metrics.jsonl", "".join(lines))
            if self.writer is not None:
                for name, value in history[-1].items():
                    self.writer.add_scalar(name, value, len(history))
        except OSError as error:
            warnings.warn(
                f"after epoch {len(history)}: {error}. Training continues, and tries again",
                stacklevel=4,
            )

    def remedy(self) -> str:
        """The sentences for a user who stopped the run."""
        how = "There is no checkpoint: calling again starts a new run"
        if self.checkpoint:
            how = (
                f'To resume from the last checkpoint, call again with run_dir="{self.path}",'
                f" resume=True (command line: --run-dir {self.path} --resume)"
            )
        return f"The model holds the averaged weights. {how}"

    def close(self) -> None:
        """Close TensorBoard's file."""
        if self.writer is not None:
            with suppress(OSError):  # a full disk, which was reported before
                self.writer.close()

    def _resume(self, state: dict[str, Any]) -> Rows:
        """Load the newest intact checkpoint and return its history; on an error, change nothing."""
        folder: Any = self.path
        path, content, problems = _read_newest(folder)
        history = list(content["history"])
        self._compare(content["settings"])
        if len(history) > self.settings["epochs"]:
            raise ValueError(
                f"{path} has already run {len(history)} epochs; epochs must be at least that"
            )
        _load(state, content, path)
        if problems:
            warnings.warn(
                f"{problems[0]}: resuming from the one before it, after epoch {len(history)}",
                stacklevel=4,
            )
            if self.writes:  # so that it does not become the previous one
                (folder / CHECKPOINT).unlink(missing_ok=True)
        return history

    def _compare(self, stored: dict[str, Any]) -> None:
        """Raise ValueError if the run was started with other settings; warn of other epochs."""
        changed = []
        for key in sorted(stored | self.settings):
            now = self.settings.get(key)
            if key not in FREE and stored.get(key) != now:
                changed.append(f"{key} was {stored.get(key, 'not stored')}, is {now}")
        if changed:
            raise ValueError(
                f"{self.path} contains a run with other settings ({'; '.join(changed)}): name"
                " another folder"
            )
        before, epochs = stored.get("epochs"), self.settings["epochs"]
        if before != epochs:
            warnings.warn(
                f"epochs was {before}, is {epochs}: the learning rate follows the number of epochs,"
                f" so that the weights are not those of an uninterrupted run of {epochs}",
                stacklevel=5,
            )


def _is_free(folder: Path) -> bool:
    """Whether a folder without a checkpoint holds nothing of somebody else's in a run's place."""
    if not any(
        (folder / name).exists() for name in ("config.json", "metrics.jsonl", "weights.pth")
    ):
        return True
    try:
        return "epochs" in json.loads(read_file(folder / "config.json"))
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint in a folder, or None."""
    for name in (CHECKPOINT, PREVIOUS):
        if (folder / name).exists():
            return folder / name
    return None


def _content(part: Any) -> Any:
    """A part of a checkpoint as it is stored."""
    return part.state_dict() if hasattr(part, "state_dict") else part


def _read_newest(folder: Path) -> tuple[Path, dict[str, Any], list[str]]:
    """The newest intact checkpoint, its content, and the reasons why a newer one is not used.

    Raises WeightsError if there is none.
    """
    problems: list[str] = []
    for path in (folder / CHECKPOINT, folder / PREVIOUS):
        try:
            return path, _read(path), problems
        except Exception as error:  # torch.load raises many kinds
            if path.exists() or path.name == CHECKPOINT:
                problems.append(_not_resumed(path, error))
    raise WeightsError(
        f"{'; '.join(problems)}. Damaged, or no checkpoint: delete it, or name another run folder"
    )


def _read(path: Path) -> dict[str, Any]:
    """The content of a checkpoint; an error of any kind if it is damaged."""
    file = io.BytesIO(read_file(path))
    with zipfile.ZipFile(file) as archive:  # torch.load does not verify the checksums
        if archive.testzip() is not None:
            raise zipfile.BadZipFile("a checksum is wrong")
    file.seek(0)
    content = torch.load(file, map_location="cpu", weights_only=True)
    told = content.pop("sha256", None)
    if told is None:
        list(content["history"])
        warnings.warn(f"{path} is of an older version: not checked for being whole", stacklevel=6)
    elif told != _digest(content):
        raise ValueError("it has been changed since it was written")
    return content


def _digest(content: Any) -> str:
    """A checksum of everything in a checkpoint."""
    total = hashlib.sha256()
    for text, tensor in _leaves(content):
        total.update(text.encode())
        if tensor.numel():
            total.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()


def _leaves(content: Any, place: str = "") -> Iterator[tuple[str, Tensor]]:
    """Each value in nested dicts and lists, with its place; of a tensor, the numbers too."""
    if isinstance(content, Tensor):
        yield f"{place} {content.dtype} {tuple(content.shape)};", content.detach()
    elif isinstance(content, dict):
        yield f"{place} {len(content)} entries;", torch.empty(0)
        for key, value in content.items():
            yield from _leaves(value, f"{place}/{key!r}")
    elif isinstance(content, list | tuple):
        yield f"{place} {len(content)} values;", torch.empty(0)
        for number, value in enumerate(content):
            yield from _leaves(value, f"{place}/{number}")
    else:
        yield f"{place} {content!r};", torch.empty(0)


def _load(state: dict[str, Any], content: dict[str, Any], path: Path) -> None:
    """Load each part of a checkpoint; WeightsError, and an unchanged model, if one does not fit."""
    before = copy.deepcopy(state["model"].state_dict())
    try:
        for name, part in state.items():
            part.load_state_dict(content[name])
    except Exception as error:
        state["model"].load_state_dict(before)
        raise WeightsError(
            f"{_not_resumed(path, error)}. It belongs to another model: name another folder"
        ) from error


def _not_resumed(path: Path, error: Exception) -> str:
    reason = str(error).partition("\n")[0]
    return f"{path} cannot be resumed from ({type(error).__name__}: {reason})"
