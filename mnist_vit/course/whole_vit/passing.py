"""One forward pass of a model, observed: what it uses, in which order, and how often."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..checking import Mistake, describe
from .running import logits_in

PRODUCTS = ("matmul", "mm", "bmm", "tensordot")  # where a weight stands as it is, x @ W
ATTENTIONS = ("multi_head_attention_forward", "scaled_dot_product_attention")  # whole ones
ACTIVATIONS = (  # and what those by hand are made of
    "gelu",
    "relu",
    "silu",
    "tanh",
    "sigmoid",
    "erf",
    "elu",
    "leaky_relu",
    "mish",
    "hardswish",
    "softplus",
)
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "alpha_dropout", "feature_alpha_dropout")
DRAWN = (
    "rand",
    "randn",
    "rand_like",
    "randn_like",
    "normal_",
    "uniform_",
    "bernoulli",
    "bernoulli_",
)


OTHER_POS = re.compile("position_?wise|compos|transpos")  # no positions


@dataclass
class OtherMlp:
    """A module that stands where ours has two matrices.

    Attributes:
        path: of the module.
        place: the number of its block.
        matrices: the names of those that it uses, in this order.
        norms: the names of parameters that it uses before its first matrix.
    """

    path: str
    place: int
    matrices: list[str]
    norms: list[str] = field(default_factory=list)


@dataclass
class Pass:
    """What a forward pass used.

    Attributes:
        order: the names of the tensors of the model, in the order of their first use.
        uses: how often each was used.
        multiplied: the names of matrices that stand behind @, and are not transposed.
        heads: the numbers of heads of the attention layers, as far as they are seen.
        tokens: the length of the sequence, as far as it is seen.
        activated: the names of matrices behind which an activation follows.
        attended: the names of matrices behind which the softmax of an attention follows.
        attentions: for each attention, in order, the name of a matrix that belongs to it.
        mlps: the names of the matrices of the blocks' MLPs.
        other_mlps: those of the blocks that are other than two matrices.
        has_no_mlps: whether its blocks have attention alone.
        keeps_shape: the paths of modules that give a tensor of the shape that they take.
        gives_alike: of these, and of those that give such a tensor first, with others.
        drawn: functions that draw random numbers.
        dropout: the functions that apply dropout.
        taken: where the logits are in the output, in words; "" if they are all of it.
        outputs: how many logits a picture gets; 0 if they are no row of numbers.
        head: the names of all that a head of more layers than ours uses; it is left out.
    """

    order: list[str] = field(default_factory=list)
    uses: Counter[str] = field(default_factory=Counter)
    multiplied: set[str] = field(default_factory=set)
    heads: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    activated: set[str] = field(default_factory=set)
    attended: set[str] = field(default_factory=set)
    attentions: list[str] = field(default_factory=list)
    mlps: list[str] = field(default_factory=list)
    other_mlps: list[OtherMlp] = field(default_factory=list)
    has_no_mlps: bool = False
    keeps_shape: set[str] = field(default_factory=set)
    gives_alike: set[str] = field(default_factory=set)
    drawn: set[str] = field(default_factory=set)
    dropout: set[str] = field(default_factory=set)
    taken: str = ""
    outputs: int = 0
    head: list[str] = field(default_factory=list)

    def leave_out_head(self, first: str) -> None:
        """Take for the head, and forget, what is used from this matrix on."""
        begin = self.order.index(first)
        self.head = self.order[begin:]
        del self.order[begin:]
        for name in self.head:
            del self.uses[name]
        self.taken = ""

    def place(self, name: str) -> int:
        """The place of a tensor in the order of use; behind all others if it is not used."""
        return self.order.index(name) if name in self.uses else len(self.order)


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters, buffers, and other tensors that modules hold, by name; in this order."""
    found: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    found |= dict(model.named_buffers(remove_duplicate=False))
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                found[f"{path}.{name}".strip(".")] = value
    for name, tensor in list(found.items()):
        if not tensor.is_floating_point() or tensor.numel() == 0:
            del found[name]
    return found


def of_positions(name: str) -> bool:
    """Whether a tensor's name says that it holds positions; a position-wise MLP holds none."""
    return "pos" in OTHER_POS.sub("", name)


def observed(model: nn.Module, pictures: Tensor) -> Pass:
    """Run a model once, in eval mode, and tell what it used.

    Raises:
        Mistake: it gives no logits.
    """
    seen = Pass()
    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_hook(_shape_hook(seen, path)))
    try:
        with _Uses(seen, tensors_of(model), len(pictures)):
            output = model.eval()(pictures)
    finally:
        for handle in handles:
            handle.remove()
    found, seen.taken = logits_in(output)
    if not isinstance(found, Tensor):
        raise Mistake(f"the output of the model must be logits, but is {describe(found)}.")
    if found.dim() == 2:
        seen.outputs = found.shape[1]
    return seen


def _shape_hook(seen: Pass, path: str) -> Any:
    def hook(module: nn.Module, args: tuple, output: Any) -> None:
        takes = getattr(args[0] if args else None, "shape", None)
        if takes is not None and takes == getattr(output, "shape", None):
            seen.keeps_shape.add(path)
        first = next(flat([output]), None)
        if takes is not None and takes == getattr(first, "shape", None):
            seen.gives_alike.add(path)

    return hook


class _Uses(TorchFunctionMode):
    """Notes each call of a function of torch."""

    def __init__(self, seen: Pass, tensors: dict[str, Tensor], batch: int) -> None:
        super().__init__()
        self.seen = seen
        self.batch = batch
        self.names: dict[int, str] = {}
        self.matrix = ""  # the last one that was used
        self.layer = ""  # the last of those that are learned, and no table of positions
        for name, tensor in tensors.items():
            self.names.setdefault(id(tensor), name)

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = name_of(function)
        if name == "get":  # an attribute, such as x.shape
            return result
        for value in flat([args, kwargs]):
            self._note_use(value)
        if name in PRODUCTS and len(args) > 1:
            self._note_product(args[1])
        self._note_attention(name, args, result)
        if name in ACTIVATIONS:
            self.seen.activated.add(self.matrix)
        if name in DRAWN:
            self.seen.drawn.add(name)
        if dropout_of(name, args, kwargs):
            self.seen.dropout.add(name)
        return result

    def _note_use(self, value: Any) -> None:
        name = self._name(value)
        if name is None:
            return
        if name not in self.seen.uses:
            self.seen.order.append(name)
        self.seen.uses[name] += 1
        if value.dim() > 1:
            self.matrix = name
            is_learned = isinstance(value, nn.Parameter) or isinstance(value._base, nn.Parameter)
            if is_learned and not of_positions(name):
                self.layer = name

    def _note_product(self, value: Any) -> None:
        name = self._name(value)
        if name is not None and value.stride(-1) == 1:
            self.seen.multiplied.add(name)

    def _note_attention(self, name: str, args: tuple, result: Any) -> None:
        if name in ATTENTIONS or (name == "softmax" and _is_square(result)):
            self.seen.attentions.append(self.layer)
        if name == "scaled_dot_product_attention" or (name == "softmax" and result.dim() > 2):
            self.seen.attended.add(self.matrix)
        if name == "multi_head_attention_forward":
            self.seen.heads.append(args[4])
            self._note_tokens(len(args[0]), args[0].shape[1])
        elif name == "scaled_dot_product_attention" and args[0].dim() == 4:
            self.seen.heads.append(args[0].shape[1])
            self._note_tokens(args[0].shape[2], len(args[0]))
        elif name == "softmax" and _is_square(result):
            batch = len(result) if result.dim() == 4 else result.shape[-1]
            self._note_tokens(result.shape[-1], batch)
            if result.dim() == 4:
                self.seen.heads.append(result.shape[1])
            elif result.dim() == 3 and len(result) > self.batch:
                self.seen.heads.append(len(result) // self.batch)

    def _note_tokens(self, attended: int, batch: int) -> None:
        """Note the length of a sequence: of what is attended to, unless it is the pictures."""
        self.seen.tokens.append(batch if attended == self.batch else attended)

    def _name(self, value: Any) -> str | None:
        """The name of a tensor of the model, or of one that this is a view of."""
        if not isinstance(value, Tensor):
            return None
        base = value if value._base is None else value._base
        return self.names.get(id(value)) or self.names.get(id(base))


def _is_square(scores: Tensor) -> bool:
    """Whether a tensor holds as many rows as columns."""
    return scores.dim() > 1 and scores.shape[-1] == scores.shape[-2]


def name_of(function: Any) -> str:
    """The name of a function of torch, without the underscores of an operator."""
    return getattr(function, "__name__", "").removeprefix("__").removesuffix("__")


def dropout_of(name: str, args: tuple, kwargs: dict[str, Any]) -> float | None:
    """The probability of a call of a function of this name that is dropout; None if it is not."""
    if name == "scaled_dot_product_attention":
        return kwargs.get("dropout_p")
    if name == "multi_head_attention_forward":
        return args[10] if kwargs.get("training", True) else None
    if name not in DROPOUTS:
        return None
    training = args[2] if len(args) > 2 else kwargs.get("training", True)
    if not training:
        return None
    return args[1] if len(args) > 1 else kwargs.get("p", 0.5)


class WithoutDropout(TorchFunctionMode):
    """Lets functions that apply dropout do nothing."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(function)
        if name in DROPOUTS:
            return args[0] if args else kwargs["input"]
        if name == "scaled_dot_product_attention":
            kwargs = kwargs | {"dropout_p": 0.0}
        return function(*args, **kwargs)


def flat(value: Any) -> Iterator[Any]:
    """The values in nested tuples, lists and dictionaries."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for one in value:
            yield from flat(one)
    else:
        yield value
