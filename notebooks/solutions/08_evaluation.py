"""Solutions of notebook 08, made from the sources of its checks by `python -m tools solutions`."""

import math

import torch
import torch.nn.functional as F

from mnist_vit.course.nb08_evaluation.coin import my_coin as coin


# exercise: as_sharp
def my_as_sharp(changed, images):
    # two batches, (n, c, h, w), 0 to 1 -> whether changed has 3/4 to 5/4 of the detail of images
    def detail(batch):
        inside = batch[..., 4:-4, 4:-4]
        across, down = inside.diff(dim=-1), inside.diff(dim=-2)
        return across.square().mean() + down.square().mean()

    share = detail(changed) / detail(images)
    return bool(0.75 < share < 1.25)


# exercise: better_model
def my_better_model(labels, first, second):
    """Truth and the predictions of two models, (n,) each -> "first", "second" or "cannot tell"."""
    b = int(((first == labels) & (second != labels)).sum())  # only the first is right
    c = int(((first != labels) & (second == labels)).sum())  # only the second is right
    if coin(b, c) >= 0.05:
        return "cannot tell"
    return "first" if b > c else "second"


# exercise: coin
def my_coin(b, c):
    """The chance that a fair coin, tossed b + c times, falls at least as unevenly as b to c, either
    way."""
    n = b + c
    ways = 0
    for heads in range(n + 1):
        if abs(heads - (n - heads)) >= abs(b - c):
            ways += math.comb(n, heads)
    return ways / 2**n


# exercise: confusion
def my_confusion(labels, predictions, num_classes):
    """(n,), (n,) -> counts, int64, (num_classes, num_classes); row = truth, column = prediction."""
    matrix = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    for truth, named in zip(labels.tolist(), predictions.tolist(), strict=True):
        matrix[truth, named] += 1
    return matrix


# exercise: controls
def my_controls(images):
    # (n, c, h, w), 0 to 1 -> {"blur": …, "shift": …, "border": …}, each as large as images
    wide = F.pad(images, (1, 1, 1, 1), mode="replicate")
    row = torch.tensor([0.105, 0.79, 0.105], dtype=images.dtype)
    kernel = torch.outer(row, row).expand(images.shape[1], 1, 3, 3)
    blur = F.conv2d(wide, kernel, groups=images.shape[1])
    shift = wide[..., :-2, :-2]
    border = torch.zeros_like(images)
    border[..., 1:-1, 1:-1] = images[..., 1:-1, 1:-1]
    return {"blur": blur, "shift": shift, "border": border}


# exercise: enlarge
def my_enlarge(images, size):
    """(n, 8, 8), 0 to 16 -> (n, 1, 28, 28), uint8: the digit enlarged to size x size, in the
    middle, black around."""
    grey = images[:, None] / 16
    large = F.interpolate(grey, size=(size, size), mode="bicubic")
    large = (255 * large.clamp(0, 1)).round().to(torch.uint8)
    border = (28 - size) // 2
    return F.pad(large, (border, border, border, border))


# exercise: reliability
def my_reliability(probabilities, labels, low, high):
    """Of the answers with low < confidence <= high: how many, their mean confidence, the share that
    is right."""
    confidence, predictions = probabilities.max(dim=1)
    chosen = (confidence > low) & (confidence <= high)
    right = (predictions == labels)[chosen]
    return int(chosen.sum()), float(confidence[chosen].mean()), float(right.float().mean())


# exercise: wilson
def my_wilson(correct, total, z=1.96):
    """Both ends of the interval, as shares from 0 to 1, the lower one first."""
    share = correct / total
    below = 1 + z * z / total
    shift = z * z / (2 * total)
    variance = share * (1 - share) / total + z * z / (4 * total * total)
    middle = (share + shift) / below
    reach = z * math.sqrt(variance) / below
    return middle - reach, middle + reach
