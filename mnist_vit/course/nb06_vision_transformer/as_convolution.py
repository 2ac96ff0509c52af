"""Exercise: the convolution that does to a picture what a linear layer does to its patches."""

from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Exercise, Mistake, Slip, random, randomise


def my_as_convolution(linear, channels, patch_size):
    """An nn.Linear for patches of channels * patch_size**2 numbers -> an nn.Conv2d for whole
    pictures."""
    convolution = nn.Conv2d(channels, linear.out_features, patch_size, stride=patch_size)
    with torch.no_grad():
        # (hidden_dim, c * p * p) -> (hidden_dim, c, p, p): a patch's pixels lie in this order
        weight = linear.weight.reshape(-1, channels, patch_size, patch_size)
        convolution.weight.copy_(weight)
        convolution.bias.copy_(linear.bias)
    return convolution


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """More rows than columns, two channels: an axis taken for another one shows."""
    for channels, p, width, h, w in ((2, 3, 5, 9, 6), (1, 4, 7, 4, 12)):
        linear = randomise(nn.Linear(channels * p * p, width), seed=3)
        before = {name: tensor.clone() for name, tensor in linear.state_dict().items()}
        convolution = answer(linear, channels, p)
        if convolution is None or convolution is ...:
            yield "what comes back", convolution
            return
        if not isinstance(convolution, nn.Conv2d):
            raise Mistake(
                f"an nn.Conv2d is needed, and this is {type(convolution).__name__}.",
                "Make one, nn.Conv2d(…), copy the numbers into it, and return it.",
            )
        shape = (convolution.in_channels, convolution.out_channels, convolution.kernel_size)
        if shape != (channels, width, (p, p)):
            raise Mistake(
                f"the convolution goes from {shape[0]} to {shape[1]} channels with windows of"
                f" {shape[2]}; here it must go from {channels} channels to {width} numbers a patch,"
                f" with windows of {(p, p)}."
            )
        output = convolution(random(3, channels, h, w, seed=4))
        yield f"output for patches of {p}x{p} from {channels} channel{'s' * (channels > 1)}", output
        after = linear.state_dict()
        for name, tensor in before.items():
            if name not in after or after[name].shape != tensor.shape:
                raise _other_shape(name, tuple(tensor.shape), after.get(name))
            yield f"change of the linear layer's {name}", after[name] - tensor


def _other_shape(name: str, before: tuple[int, ...], after: Tensor | None) -> Mistake:
    """What is said where the linear layer's own parameter is no longer what it was."""
    now = "is gone" if after is None else f"has the shape {tuple(after.shape)}"
    return Mistake(
        f"the linear layer is no longer what it was: its {name} had the shape {before}, and {now}"
        " after the call.",
        "Whoever called it may still need the layer. Give the convolution a tensor of its own: copy"
        " the numbers, as with copy_ under torch.no_grad().",
    )


@torch.no_grad()
def notice(answer: Any) -> Mistake | None:
    """Which of weight and bias is right; then the steps of the windows."""
    linear = randomise(nn.Linear(2 * 3 * 3, 5), seed=8)
    made = answer(linear, 2, 3)
    torch.manual_seed(1)  # the start values are others
    again = answer(linear, 2, 3)
    for name in ("weight", "bias"):
        first, second = getattr(made, name), getattr(again, name)
        if first is None or second is None or first.shape != second.shape:
            continue
        other = first != second
        if other.any():
            return Mistake(
                f"Made twice from one linear layer, the convolution's {name} is not the same:"
                f" {int(other.sum())} of {other.numel()} numbers change.",
                "A new convolution holds random numbers. Every number must come from the linear"
                f" layer alone. {COPY[name]}",
            )
    right = my_as_convolution(linear, 2, 3)
    bias = torch.zeros(5) if made.bias is None else made.bias
    are_right = {
        "weight": made.weight.shape == right.weight.shape
        and torch.allclose(made.weight, right.weight),
        "bias": bias.shape == right.bias.shape and torch.allclose(bias, right.bias),
    }
    if not are_right["weight"] and not are_right["bias"]:
        said = "Neither the convolution's weight nor its bias is that of the linear layer."
        return Mistake(said, f"{COPY['weight']} {COPY['bias']}")
    for name, other in (("weight", "bias"), ("bias", "weight")):
        if not are_right[name]:
            said = f"The convolution's {other} is right, and its {name} is not"
            shape = tuple(getattr(made, name).shape) if getattr(made, name) is not None else ()
            wanted = tuple(getattr(right, name).shape)
            if shape and shape != wanted:
                said += f": for {wanted} numbers it has the shape {shape}"
            elif shape:
                said += _how_related(getattr(made, name), getattr(right, name))
            return Mistake(f"{said}.", COPY[name])
    if made.dilation != right.dilation:
        return Mistake(
            f"Weight and bias are right. The convolution has a dilation of {made.dilation}: it"
            " leaves out pixels between those that it takes.",
            "A patch has no gaps: leave dilation at 1.",
        )
    if made.stride != right.stride or made.padding != right.padding:
        return Mistake(
            "Weight and bias are right. With patch_size=3 the windows stand"
            f" {made.stride} pixels apart, with a padding of {made.padding}.",
            "Each patch is seen once: stride=patch_size, and no padding.",
        )
    return None


def _how_related(own: Tensor, right: Tensor) -> str:
    """What can be said of numbers that are the right ones in other places, or times one number."""
    factor = float((own * right).sum() / (right * right).sum())
    if abs(factor) > 1e-6 and torch.allclose(own, factor * right, atol=1e-5):
        return f": it is the right one times {factor:.4g}"
    if torch.allclose(own.flatten().sort().values, right.flatten().sort().values, atol=1e-6):
        return _how_moved(own, right) or ": it holds the right numbers in other places"
    factors = (own * right).flatten(1).sum(dim=1) / right.square().flatten(1).sum(dim=1)
    if torch.allclose(own, factors[:, None, None, None] * right, atol=1e-5):
        told = ", ".join(f"{one:.3g}" for one in factors.tolist())
        return f": each window is the right one times a number of its own, {told}"
    same = [n for n in range(len(right)) if torch.allclose(own[n], right[n], atol=1e-6)]
    if same and len(same) < len(right):
        return f". Right are {len(same)} of its {len(right)} windows: {', '.join(map(str, same))}"
    return ""


AXES = {1: "the channels", 2: "the rows", 3: "the columns"}


def _how_moved(own: Tensor, right: Tensor) -> str:
    """Which axes are exchanged, or read backwards, in a weight that has the right numbers."""
    for count in range(1, 4):
        for flipped in combinations(AXES, count):
            if torch.allclose(own, right.flip(flipped), atol=1e-6):
                names = [AXES[axis] for axis in flipped]
                listed = " and ".join(([", ".join(names[:-1])] if names[:-1] else []) + names[-1:])
                return f": it is the right one with {listed} in the opposite order"
    distances = (own[:, None] - right[None]).abs().flatten(2).amax(dim=2)  # own, right
    if (distances.amin(dim=1) < 1e-6).all():
        order = ", ".join(str(int(one)) for one in distances.argmin(dim=1))
        return f": its windows are the right ones in another order, {order}"
    channels, p = right.shape[1], right.shape[2]
    sizes = {"channel": channels, "row": p, "column": p}
    for axes in permutations(sizes):
        read = right.flatten(1).reshape(-1, *(sizes[name] for name in axes))
        back = read.permute(0, *(1 + axes.index(name) for name in sizes))
        if torch.allclose(own, back, atol=1e-6):
            return (
                ": it takes the pixels of a patch in the order"
                f" {axes[0]}, {axes[1]}, {axes[2]}, the last one changing fastest, and they come"
                " in the order channel, row, column"
            )
    return ""


COPY = {
    "weight": (
        "Row i of linear.weight is window i of the convolution: linear.weight.reshape(-1, channels,"
        " patch_size, patch_size)."
    ),
    "bias": "Number i of linear.bias is number i of the convolution's bias.",
}
MAKE = "nn.Conv2d(channels, linear.out_features, patch_size, stride=patch_size)"
WEIGHT, BIAS = (
    "linear.weight.reshape(-1, channels, patch_size, patch_size)",
    "convolution.bias.copy_(linear.bias)",
)

SLIPS = (
    Slip(
        {MAKE: "nn.Conv2d(channels, linear.out_features, patch_size)"},
        "leave the stride at 1",
        "The windows then overlap. Patches do not: the stride is the size of the window",
    ),
    Slip(
        {BIAS: "convolution.bias.zero_()"},
        "leave out the linear layer's bias",
        "Make the convolution with a bias, and copy the linear layer's bias into it",
    ),
    Slip(
        {
            MAKE: (
                "nn.Conv2d(channels, linear.out_features, patch_size, stride=patch_size,"
                " bias=False)"
            ),
            BIAS: "",
        },
        "leave out the linear layer's bias",
        "Make the convolution with a bias, and copy the linear layer's bias into it",
    ),
    Slip(
        {WEIGHT: "linear.weight.reshape(-1, patch_size, patch_size, channels).permute(0, 3, 1, 2)"},
        "expect the channels of a pixel side by side",
        "In a patch all pixels of the first channel come first: (hidden_dim, c, p, p)",
    ),
    Slip(
        {WEIGHT: "linear.weight.reshape(-1, channels, patch_size, patch_size).transpose(2, 3)"},
        "exchange the rows and columns of every window",
        "A patch's pixels come row by row: reshape to (hidden_dim, c, p, p), and swap no axes",
    ),
    Slip(
        {WEIGHT: "linear.weight.reshape(-1, channels, patch_size, patch_size).flip(2, 3)"},
        "flip the windows, as convolutions in mathematics do",
        "torch's convolution multiplies without flipping, as the linear layer does: flip nothing",
    ),
    Slip(
        {BIAS: "pass"},
        "leave the convolution's bias as it was made",
        "Copy the linear layer's into it",
    ),
    Slip(
        {"convolution.weight.copy_(weight)": "pass"},
        "leave the convolution's weight as it was made",
        "Copy the linear layer's into it, as (hidden_dim, c, p, p)",
    ),
    Slip(
        {f"convolution.weight.copy_(weight)\n        {BIAS}": "pass"},
        "leave the convolution as it was made",
        "Copy the linear layer's weight and bias into it",
    ),
    Slip(
        {
            MAKE: (
                "nn.Conv2d(channels, linear.out_features, patch_size, stride=patch_size,"
                " padding=patch_size // 2)"
            )
        },
        "add padding",
        "The first windows then begin outside the picture. Patches do not: leave out the padding",
    ),
    Slip(
        {"convolution.weight.copy_(weight)": "convolution.weight = linear.weight"},
        "give the convolution the linear layer's weight in its old shape",
        "A convolution's is (hidden_dim, c, p, p)",
    ),
    Slip(
        {
            f"convolution.weight.copy_(weight)\n        {BIAS}": (
                "convolution.load_state_dict(linear.state_dict())"
            )
        },
        "load the linear layer's weight into the convolution in the shape that it has there",
        "In a convolution the same numbers stand as (hidden_dim, c, p, p): reshape the weight",
    ),
    Slip(
        {WEIGHT: "linear.weight.T.reshape(-1, channels, patch_size, patch_size)"},
        "transpose the linear layer's weight first",
        (
            "Row i of it makes number i of a token, as window i of the convolution does: reshape"
            " it without .T"
        ),
    ),
)

EXERCISE = Exercise(
    answer=my_as_convolution,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Both multiply the same pixels by the same numbers and add them up. How many numbers"
            " has the linear layer for one output, and which shape has a convolution's weight for"
            " one output channel?"
        ),
        (
            "Make an nn.Conv2d whose windows do not overlap, then copy weight and bias into it"
            " under torch.no_grad(). One row of the linear layer's weight holds the pixels in the"
            " order that my_patchify gives them: channel, row, column."
        ),
    ),
    same=(
        {WEIGHT: "linear.weight.unflatten(1, (channels, patch_size, patch_size))"},
        {WEIGHT: "linear.weight.view(linear.out_features, channels, patch_size, patch_size)"},
    ),
    tolerance=1e-5,
)
