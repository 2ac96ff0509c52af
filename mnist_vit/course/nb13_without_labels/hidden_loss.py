"""Exercise: the squared error on the hidden patches only."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, random


def my_hidden_loss(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    # predicted, patches: (n, num_patches, pixels), order: (n, num_patches) -> a number
    error = (predicted - patches).square().mean(dim=2)
    return error.gather(1, order[:, keep:]).mean()


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for n, num_patches, pixels, keep in ((3, 8, 4, 5), (2, 5, 3, 2), (1, 6, 2, 5)):
        predicted = random(n, num_patches, pixels, seed=137).requires_grad_()
        patches = random(n, num_patches, pixels, seed=138)
        order = random(n, num_patches, seed=139).argsort(dim=1)
        loss = answer(predicted, patches, order, keep)
        yield f"the loss, {keep} of {num_patches} patches visible", loss
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            return
        found = None
        if loss.requires_grad:
            (found,) = torch.autograd.grad(loss.sum(), predicted, allow_unused=True)
        yield "gradient of predicted", found


NAN = ", and a mean of numbers of which one is nan is nan"


def notice(answer: Any) -> Mistake | None:
    """What an error of 3 everywhere gives, and which patches count."""
    order = torch.tensor([[2, 0, 3, 1], [1, 3, 0, 2]])
    empty = torch.zeros(2, 4, 2)
    one = float(answer(empty + 3, empty, order, 2))
    if not abs(one - 9) <= 1e-4:  # nan is not near anything
        return Mistake(
            f"Where every pixel is off by 3 you give {one:.4g}.",
            f"It should be 9, the mean of the squares{NAN if math.isnan(one) else ''}.",
        )
    one = float(answer(empty + 3, empty, order, 1))
    if not abs(one - 9) <= 1e-4:
        return Mistake(
            "Where every pixel is off by 3 you give 9 if 2 of 4 patches are visible, and"
            f" {one:.4g} if 1 of 4 is.",
            "It should be 9 in both: the mean over as many as are hidden, order.shape[1] - keep of"
            " each picture.",
        )
    for name in ("predicted", "patches"):
        taken = []
        for place in range(8):
            marked = empty.clone()
            marked[place // 4, place % 4] = 1.0
            given = (marked, empty) if name == "predicted" else (empty, marked)
            if float(answer(*given, order, 2)) != 0:
                taken.append(place)
        if taken and taken != [1, 3, 4, 6]:
            first = [str(place) for place in taken if place < 4]
            second = [str(place - 4) for place in taken if place >= 4]
            return Mistake(
                "With keep=2 and the order 2, 0, 3, 1 of picture 0 and 1, 3, 0, 2 of picture 1,"
                f" these patches of `{name}` make a difference: {', '.join(first) or 'none'} of"
                f" picture 0, and {', '.join(second) or 'none'} of picture 1.",
                "Hidden are 3 and 1 in picture 0, and 0 and 2 in picture 1: order[:, keep:], of"
                " predicted and of patches.",
            )
    counted = []
    for place in (1, 3):
        marked = empty.clone()
        marked[0, place] = 1.0
        counted.append(float(answer(marked, empty, order, 2)))
    if abs(counted[0] - counted[1]) > 1e-5:
        return Mistake(
            "Hidden patches do not count alike in yours: an error of 1 in patch 1 gives"
            f" {counted[0]:.4g}, and the same error in patch 3 gives {counted[1]:.4g}.",
            "It should be the same number for each: the mean over the hidden patches.",
        )
    off = empty.clone()
    off[:, :, 0], off[:, :, 1] = 1.0, -3.0
    one = float(answer(off, empty, order, 2))
    if abs(one - 5) > 1e-4:
        return Mistake(
            f"Where the first pixel of each patch is off by 1 and the second by -3 you give"
            f" {one:.4g}.",
            "It should be 5: the squares are 1 and 9, and their mean is 5.",
        )
    predicted, patches = random(2, 4, 3, seed=1), random(2, 4, 3, seed=2)
    for name, other in (("larger by 1", patches + 1), ("twice as large", 2 * patches)):
        losses = [float(answer(predicted, one, order, 2)) for one in (patches, other)]
        if abs(losses[0] - losses[1]) < 1e-4 * abs(losses[0]):
            return Mistake(
                f"Where all true pixels are {name} your loss is the same.",
                "The error is that of the pixels as they are, predicted - patches: nothing brings"
                " them to another mean or spread.",
            )
    return None


ERROR = "(predicted - patches).square().mean(dim=2)"
END = "return error.gather(1, order[:, keep:]).mean()"

SLIPS = (
    Slip(
        {END: "return error.gather(1, order[:, -keep:]).mean()"},
        "take the last keep of order, as if keep were the number of hidden patches",
        "keep patches are visible; the hidden ones are all behind them, order[:, keep:]",
    ),
    Slip(
        {END: "return error.mean()"},
        "take the mean over all patches",
        "What the model was shown is no task. Only the patches order[:, keep:] count",
    ),
    Slip(
        {END: "return error.gather(1, order[:, :keep]).mean()"},
        "take the visible patches",
        "The first keep patches of order were shown; those behind them count",
    ),
    Slip(
        {END: "return error[:, keep:].mean()"},
        "take the last patches in reading order",
        "predicted and patches stand in reading order, and which patches are hidden is said by"
        " order[:, keep:]",
    ),
    Slip(
        {END: "return error[:, order[0, keep:]].mean()"},
        "count in every picture what is hidden in the first",
        (
            "Each row of order belongs to a picture of its own: gather along axis 1 takes other"
            " patches from each picture"
        ),
    ),
    Slip(
        {END: "return error[:, order[:, keep:]].mean()"},
        "take what is hidden in any picture from every picture, as [:, order[:, keep:]] does",
        "Each row of order belongs to a picture of its own: gather along axis 1 takes other"
        " patches from each picture",
    ),
    Slip(
        {END: "return error[order[:, keep:]].mean()"},
        "index axis 0, which counts the pictures, with the numbers of patches",
        "The patches are axis 1, and other ones in each picture: error.gather(1, …), or"
        " [torch.arange(n)[:, None], order[:, keep:]]",
    ),
    Slip(
        {END: "return error[torch.arange(len(order)), order[:, keep:]].mean()"},
        "take the hidden places with a picture's number for each column of order[:, keep:], as"
        " [torch.arange(n), order[:, keep:]] does",
        "Each row belongs to a picture: torch.arange(n)[:, None], or error.gather(1, …)",
    ),
    Slip(
        {ERROR: "(predicted - patches).square().mean(dim=1)"},
        "take the mean over the patches, dim=1, where that over the pixels is needed",
        "Each patch needs one error, (n, num_patches): the mean over dim=2, its pixels",
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep:]).sum()"},
        "add up the errors of the hidden patches of all pictures",
        "Take the mean over pictures and hidden patches",
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep:]).sum() / error.numel()"},
        "divide by the number of all patches",
        "The mean is over the numbers of the hidden patches alone: divide by how many there are",
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep:]).sum() / (len(order) * keep)"},
        "divide by the number of the visible patches",
        "The mean is over the hidden ones, order.shape[1] - keep of each picture",
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep:]).mean(dim=1).sum()"},
        "add up the losses of the pictures",
        "Take the mean over the pictures, too",
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep:]).sum() / len(order)"},
        "add up the errors of a picture's hidden patches, and take the mean over the pictures",
        "Take the mean over the hidden patches, too",
    ),
    Slip(
        {END: "return 0.5 * error.gather(1, order[:, keep:]).mean()"},
        "take half of the mean",
        "The mean of the squares is the loss, as it is",
    ),
    Slip(
        {
            ERROR: (
                "torch.nn.functional.smooth_l1_loss(predicted, patches, reduction='none').mean(2)"
            )
        },
        "take a loss that is half of the square where errors are small, and a line where they are"
        " large, as smooth_l1_loss and huber_loss do",
        "The squared error is asked for: (predicted - patches) ** 2, or F.mse_loss",
    ),
    Slip(
        {ERROR: "(predicted - patches).square().sum(dim=2)"},
        "add up the squared errors of a patch's pixels",
        "Take the mean over the pixels, too",
    ),
    Slip(
        {ERROR: "(predicted + patches).square().mean(dim=2)"},
        "add predicted and true pixels",
        "The error is their difference: predicted - patches",
    ),
    *(
        Slip(
            {END: f"return error.gather(1, order[:, keep:]).{name}()"},
            f"take the {told} of the hidden patches' errors",
            "The loss is their mean",
        )
        for name, told in (("max", "largest"), ("min", "smallest"), ("median", "median"))
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep:]).amax(dim=1).mean()"},
        "take the largest error of each picture's hidden patches",
        "The loss is the mean over the hidden patches, too",
    ),
    Slip(
        {END: "return error.gather(1, order[keep:]).mean()"},
        "leave out the first keep rows of order, which are pictures",
        "The hidden patches are columns of order: order[:, keep:]",
    ),
    Slip(
        {ERROR: "(predicted - patches).abs().mean(dim=2)"},
        "take the absolute error",
        "The squared error is asked for",
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep:]).mean().sqrt()"},
        "take the root",
        "The mean of the squares is the loss, as it is",
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep:]).mean().item()"},
        "return a plain number",
        "loss.backward() needs the tensor",
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep:]).mean().detach()"},
        "cut the loss off from its gradient",
        (
            "loss.backward() needs it: no .detach(), .data, .item(), torch.tensor(…) or"
            " torch.no_grad() on the way from predicted to the loss"
        ),
    ),
    Slip(
        {END: "return error[order >= keep].mean()"},
        (
            "take the patches i with order[i] >= keep, by a comparison or by"
            " order.argsort(dim=1)[:, keep:]"
        ),
        (
            "order holds the numbers of the patches, the hidden ones from place keep on: they are"
            " order[:, keep:] itself"
        ),
    ),
    Slip(
        {END: "return error[order < keep].mean()"},
        (
            "take the patches i with order[i] < keep, by a comparison or by"
            " order.argsort(dim=1)[:, :keep]"
        ),
        (
            "order holds the numbers of the patches, the hidden ones from place keep on: they are"
            " order[:, keep:] itself"
        ),
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep + 1 :]).mean()"},
        "begin one patch too late",
        "Counted from 0, the first keep of order end before place keep: order[:, keep:]",
    ),
    Slip(
        {END: "return error.gather(1, order[:, keep - 1 :]).mean()"},
        "begin one patch too early",
        "Counted from 0, the first keep of order end before place keep: order[:, keep:]",
    ),
    Slip(
        {ERROR: "(predicted - patches).mean(dim=2)"},
        "leave out the square",
        "Errors up and down would cancel: square them first",
    ),
    Slip(
        {ERROR: "(predicted - patches).mean(dim=2).square()"},
        "take the mean over the pixels before the square",
        "Errors up and down cancel in the mean: square first",
    ),
    Slip(
        {ERROR: "(predicted - patches).norm(dim=2)"},
        "take the length of the error of each patch",
        "The mean of the squares is asked for, without a root",
    ),
    Slip(
        {
            ERROR: "(predicted - patches).square().sum(dim=2)",
            END: "return error.gather(1, order[:, keep:]).sum() / len(order)",
        },
        (
            "add up the squared errors of hidden patches and pixels, and divide by the number of"
            " pictures"
        ),
        "Take the mean over pictures, hidden patches and pixels",
    ),
    Slip(
        {
            ERROR: "order[:, keep:, None].expand(-1, -1, predicted.shape[2])",
            END: "return (predicted.gather(1, error) - patches[:, keep:]).square().mean()",
        },
        "choose the hidden patches of predicted, and other ones of patches",
        "Both stand in reading order: choose the same patches of both",
    ),
    Slip(
        {
            ERROR: "order[:, keep:, None].expand(-1, -1, predicted.shape[2])",
            END: "return (predicted[:, keep:] - patches.gather(1, error)).square().mean()",
        },
        "choose the hidden patches of patches, and other ones of predicted",
        "Both stand in reading order: choose the same patches of both",
    ),
    Slip(
        {
            ERROR: "(predicted - patches).square()",
            END: "return error.gather(1, order[:, keep:, None]).mean()",
        },
        "give gather an index whose last axis has length 1: one pixel of each patch is left",
        "gather takes one number for each number of the index: take the mean over the pixels first,"
        " or expand the index along the last axis, expand(-1, -1, pixels)",
    ),
)

EXERCISE = Exercise(
    answer=my_hidden_loss,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "First one error for each patch, (n, num_patches): the mean over its pixels. Then keep"
            " the hidden ones. How did you take some patches of each picture in mask?"
        ),
        (
            "error = (predicted - patches).square().mean(dim=2). The hidden patches are"
            " order[:, keep:]: error.gather(1, order[:, keep:]).mean()."
        ),
    ),
    same=(
        {
            ERROR: "(predicted - patches).square()",
            END: (
                "pixels = order[:, keep:, None].expand(-1, -1, error.shape[2])\n"
                "    return error.gather(1, pixels).mean()"
            ),
        },
    ),
)
