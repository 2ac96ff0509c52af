"""Runs other people's models: their exceptions, their kinds of output, and parts left out."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from ..checking import Mistake
from ..checking.raised import told


def run(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call code of theirs. Raises Mistake, in a sentence, whatever it raises."""
    try:
        return function(*args, **kwargs)
    except (KeyboardInterrupt, Mistake):
        raise
    except BaseException as error:
        raise Mistake(f"{told(error)}.".replace("..", ".")) from None


def logits(model: nn.Module, pictures: Tensor) -> Any:
    """What a model answers; of several results the logits. Raises Mistake where it raises."""
    return logits_in(run(model, pictures))[0]


def logits_in(output: Any) -> tuple[Any, str]:
    """The logits in an output, and what was taken, as the end of a sentence; "" if it is all."""
    found = getattr(output, "logits", None)
    if isinstance(found, Tensor):
        return found, "its output's .logits"
    if isinstance(output, Mapping):
        for key, value in output.items():
            if isinstance(value, Tensor) and ("logit" in str(key) or len(output) == 1):
                return value, f'its output["{key}"]'
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return output[0], f"the first of its {len(output)} outputs"
    return output, ""


def leave_out_head(model: nn.Module, names: list[str], width: int) -> None:
    """Let a model return what the head takes that uses these tensors first, if there are any.

    Tokens that the head takes all at once are returned as tokens of this width.
    """
    if not names:
        return
    taken: list[Any] = []
    layer = model.get_submodule(names[0].rpartition(".")[0])

    def take(module: nn.Module, args: tuple) -> None:
        (given,) = args
        is_flat = given.dim() == 2 and given.shape[1] != width
        taken.append(given.unflatten(1, (-1, width)) if is_flat else given)

    layer.register_forward_pre_hook(take)
    model.register_forward_hook(lambda module, args, output: taken.pop())


@contextmanager
def left_out(model: nn.Module, paths: Iterable[str]) -> Iterator[None]:
    """Let the modules at these paths give what they take."""
    handles = []
    for path in paths:
        module = model.get_submodule(path)
        handles.append(module.register_forward_hook(lambda module, args, output: args[0]))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
