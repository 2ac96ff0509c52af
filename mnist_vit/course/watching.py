"""Whether a function of torch is called that an exercise asks the learner to write."""

from typing import Any

from torch.overrides import TorchFunctionMode


class Watch(TorchFunctionMode):
    """``with Watch("softmax") as watch: …; watch.seen``: whether a function of this name is called.

    It may be one of a tensor, of torch or of a module.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.seen = False

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.seen |= getattr(function, "__name__", "") == self.name
        return function(*args, **(kwargs or {}))
