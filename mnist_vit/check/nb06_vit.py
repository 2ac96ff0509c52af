"""Exercises of notebook 06: from a picture to patches, and the whole Vision Transformer."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..model import VisionTransformer
from .core import Exercise, Mistake, Mutant, copy_weights, gradients, make, random, randomise


def _patchify(images: Tensor, p: int) -> Tensor:
    n, c, h, w = images.shape
    patches = images.reshape(n, c, h // p, p, w // p, p)
    return patches.permute(0, 2, 4, 1, 3, 5).reshape(n, (h // p) * (w // p), c * p * p)


def _patchify_in_order(images: Tensor, p: int, order: tuple[int, ...]) -> Tensor:
    # the six axes are n, c, patch row, row in the patch, patch column, column in the patch
    n, c, h, w = images.shape
    return images.reshape(n, c, h // p, p, w // p, p).permute(order).reshape(n, -1, c * p * p)


def _patchify_sides_swapped(images: Tensor, p: int) -> Tensor:
    n, c, w, h = images.shape
    return images.reshape(n, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5).reshape(n, -1, c * p * p)


def _run_patchify(answer: Callable[..., Tensor]) -> Iterator[tuple[str, Any]]:
    # two colours, more rows than columns: an axis taken for another one shows
    for n, c, h, w, p in ((2, 3, 12, 8, 4), (1, 1, 6, 9, 3)):
        images = random(n, c, h, w, seed=6).requires_grad_()
        patches = answer(images, p)
        yield f"output for patches of {p}x{p} from {c} channel{'s' * (c > 1)} of {h}x{w}", patches
        if c > 1:
            yield from gradients(patches, images=images)


PATCHIFY = Exercise(
    name="patchify",
    answer="patchify",
    stars=2,
    reference=_patchify,
    run=_run_patchify,
    mutants=(
        Mutant(
            lambda images, p: images.reshape(images.shape[0], -1, images.shape[1] * p * p),
            "reshape without permute: a patch is then a run of pixels along the rows, across the whole picture. "
            "Split h and w into two axes each, and permute before the last reshape",
        ),
        Mutant(
            _patchify_sides_swapped,
            "swap height and width: pictures are (n, c, h, w), height before width, so rows before columns",
        ),
        Mutant(
            partial(_patchify_in_order, order=(0, 4, 2, 1, 3, 5)),
            "count the patches down the columns: patch 1 is then below patch 0. Put the axis of patch rows before "
            "the axis of patch columns, so that patch 1 is to the right of patch 0",
        ),
        Mutant(
            partial(_patchify_in_order, order=(0, 2, 4, 3, 5, 1)),
            "put the channels last inside a patch. The convolution's weight is (hidden_dim, c, p, p): all pixels of "
            "the first channel come first",
        ),
        Mutant(
            partial(_patchify_in_order, order=(0, 2, 4, 1, 5, 3)),
            "transpose the pixels inside each patch: columns before rows. Inside a patch the row comes first, then "
            "the column",
        ),
        Mutant(
            partial(_patchify_in_order, order=(0, 1, 2, 4, 3, 5)),
            "leave the channel axis in front of the patch axes: each patch then holds pixels of one channel from "
            "several places. Put the channel after the patch row and the patch column",
        ),
    ),
    hints=(
        "A patch is p rows and p columns, so split h into (h // p, p) and w into (w // p, p). How many axes are there "
        "then, and which of them say which patch, which say where in the patch?",
        "After images.reshape(n, c, h // p, p, w // p, p) the axes are: image, channel, patch row, row in the patch, "
        "patch column, column in the patch. Permute them to: image, patch row, patch column, channel, row, column.",
        "images.reshape(n, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5).reshape(n, -1, c * p * p)",
    ),
)


def _tokens(image_size: int, patch_size: int) -> int:
    return (image_size // patch_size) ** 2 + 1


def _run_tokens(answer: Callable[[int, int], int]) -> Iterator[tuple[str, Any]]:
    for image_size, patch_size in ((28, 2), (28, 7), (224, 16), (512, 16), (32, 32)):
        yield f"{image_size} pixels in patches of {patch_size}", answer(image_size, patch_size)


COUNT_TOKENS = Exercise(
    name="count_tokens",
    answer="count_tokens",
    stars=1,
    reference=_tokens,
    run=_run_tokens,
    mutants=(
        Mutant(lambda size, p: (size // p) ** 2, "leave out the class token. It is one more token: add 1"),
        Mutant(
            lambda size, p: size // p + 1,
            "count the patches along one side only. There are as many rows of patches as columns: square it",
        ),
        Mutant(
            lambda size, p: (size // p + 1) ** 2,
            "add the class token before squaring. First count the patches, then add 1",
        ),
        Mutant(
            lambda size, p: p * p + 1,
            "count the pixels inside one patch. Count the patches: image_size // patch_size along each side",
        ),
        Mutant(
            lambda size, p: size * size // p + 1,
            "divide the number of pixels by patch_size. A patch covers patch_size * patch_size pixels",
        ),
    ),
    hints=(
        "How many patches lie side by side along one edge of the picture? And how many such rows are there?",
        "(image_size // patch_size) patches along each edge. One more token comes in front of them.",
        "(image_size // patch_size) ** 2 + 1",
    ),
)


def _head_start(in_features: int, num_classes: int, change: Callable[[nn.Linear], Any] | None = None) -> Any:
    head = nn.Linear(in_features, num_classes)
    with torch.no_grad():
        if change is None:
            head.weight.zero_()
            head.bias.zero_()
        else:
            change(head)
    return head, math.log(num_classes)


def _head_with_loss(loss: Callable[[int], float]) -> Callable[[int, int], Any]:
    return lambda in_features, num_classes: (_head_start(in_features, num_classes)[0], loss(num_classes))


def _refuse_random_start(head: nn.Linear) -> None:
    """Say which of weight and bias kept random start values: no mutant could, as nobody knows their values."""
    if head.bias is None:
        raise Mistake("the head has no bias. Leave bias=False out: it has one, which starts at zero too.")
    kept = [name for name, values in head.named_parameters() if bool((values != values.flatten()[0]).any())]
    if len(kept) == 2:
        raise Mistake("neither weight nor bias of the head is zero. nn.init.zeros_(head.weight) sets one of them.")
    if kept == ["weight"]:
        raise Mistake("the bias of the head is set, but its weight still has random start values. Set it to zero too.")
    if kept:
        raise Mistake("the weight of the head is set, but its bias still has random start values. Set it to zero too.")


def _run_head_start(answer: Callable[[int, int], Any]) -> Iterator[tuple[str, Any]]:
    for in_features, num_classes in ((32, 10), (6, 3)):
        pair = answer(in_features, num_classes)
        if pair is None or pair is ...:
            yield "logits", pair
            return
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Mistake("two things are needed: return head, loss.")
        head, loss = pair
        if not isinstance(head, nn.Linear):
            raise Mistake(f"the first of the two must be an nn.Linear, and is a {type(head).__name__}.")
        if (head.in_features, head.out_features) != (in_features, num_classes):
            raise Mistake(
                f"the head must be nn.Linear(in_features, num_classes), here from {in_features} to {num_classes}, and "
                f"goes from {head.in_features} to {head.out_features}."
            )
        _refuse_random_start(head)
        x = random(4, in_features, seed=7)
        logits = head(x)
        yield f"output of a new head with {num_classes} classes", logits
        yield f"first loss with {num_classes} classes", loss
        if num_classes == 10:  # at zero the head itself still learns: its gradient is not zero
            measured = nn.functional.cross_entropy(logits, torch.arange(4))
            yield from gradients(measured, weight=head.weight, bias=head.bias)


CLASS_HEAD_START = Exercise(
    name="class_head_start",
    answer="class_head_start",
    stars=1,
    reference=_head_start,
    run=_run_head_start,
    mutants=(
        Mutant(
            lambda i, k: _head_start(i, k, lambda head: (head.weight.zero_(), head.bias.fill_(1 / k))),
            "put the probability 1 / num_classes into the bias. The probabilities come out right, but the logits "
            "should be 0: the softmax makes equal probabilities of them by itself",
        ),
        Mutant(
            lambda i, k: _head_start(i, k, lambda head: (head.weight.fill_(1), head.bias.zero_())),
            "set the weight to one. Set it to zero",
        ),
        Mutant(
            _head_with_loss(lambda k: 1 / k),
            "return the probability 1 / num_classes as the loss. The loss is minus the logarithm of it",
        ),
        Mutant(
            _head_with_loss(lambda k: math.log2(k)),
            "take the logarithm to base 2. Cross entropy uses the natural logarithm, math.log",
        ),
        Mutant(
            _head_with_loss(lambda k: math.log10(k)),
            "take the logarithm to base 10. Cross entropy uses the natural logarithm, math.log",
        ),
        Mutant(
            _head_with_loss(lambda k: -math.log(k)),
            "have the sign the wrong way round: the loss is -ln(1 / num_classes), which is + ln(num_classes)",
        ),
    ),
    hints=(
        "Which weight and which bias give the same logit to every class, whatever comes in? Then each class has "
        "probability 1 / num_classes, and the loss is minus the logarithm of the right one's.",
        "nn.init.zeros_(head.weight) and the same for head.bias. And -ln(1 / num_classes) can be written shorter.",
        "nn.init.zeros_(head.weight); nn.init.zeros_(head.bias); return head, math.log(num_classes)",
    ),
)


def _vision_transformer(
    image_size: int,
    patch_size: int,
    num_layers: int,
    num_heads: int,
    hidden_dim: int,
    mlp_dim: int,
    num_classes: int,
    in_channels: int,
    kind: type[VisionTransformer] = VisionTransformer,
) -> VisionTransformer:
    return kind(
        image_size,
        patch_size,
        num_layers,
        num_heads,
        hidden_dim,
        mlp_dim,
        num_classes=num_classes,
        in_channels=in_channels,
    )


def _run_vision_transformer(answer: Any) -> Iterator[tuple[str, Any]]:
    # 9 patches but 8 numbers a token, 3 images, 2 channels: no size can be taken for another
    sizes = (12, 4, 2, 2, 8, 16, 5, 2)
    reference = randomise(_vision_transformer(*sizes), seed=6)
    module = make(answer, *sizes)
    copy_weights(reference, module)
    for mode in ("eval", "train"):
        module.train(mode == "train")
        images = random(3, 2, 12, 12, seed=7).requires_grad_()
        try:
            logits = module(images)
        except RuntimeError as error:
            first = str(error)
            if "Sizes of tensors must match" in first and ("size 1 but got size 3" in first or "got size 1 " in first):
                raise Mistake(
                    "torch.cat needs a class token for each picture, and there is one for all of them. "
                    "self.class_token.expand(x.shape[0], -1, -1) makes n of it."
                ) from error
            if "Sizes of tensors must match" in first and "size 8 but got size 9" in first:
                raise Mistake(
                    "the class token has 8 numbers, and the tokens beside it have 9: that is the number of patches. "
                    "After flatten(2) the numbers of a token are axis 1: transpose(1, 2) makes them the last one."
                ) from error
            raise
        yield f"output in {mode} mode", logits
        if mode == "eval":
            yield from gradients(logits, images=images)
            for part in ("conv_proj", "class_token", "encoder", "heads"):
                yield f"gradient of {part}", _part_gradient(logits, module, part)


def _part_gradient(logits: Tensor, module: nn.Module, part: str) -> Tensor | None:
    """The gradients of all parameters of a part, one after the other by name; None where none flows."""
    named = {name: p for name, p in sorted(module.named_parameters()) if name.split(".")[0] == part}
    found = [gradient for _, gradient in gradients(logits, **named)]
    flat = [gradient.flatten() for gradient in found if gradient is not None]
    return torch.cat(flat) if len(flat) == len(found) else None


def _mutant(forward: Callable[[VisionTransformer, Tensor], Tensor], does: str) -> Mutant:
    kind = type("Mutant", (VisionTransformer,), {"forward": forward})
    return Mutant(partial(_vision_transformer, kind=kind), does)


def _sequence(vit: VisionTransformer, x: Tensor, token: Tensor | None = None, last: bool = False) -> Tensor:
    x = vit.conv_proj(x).flatten(2).transpose(1, 2)
    token = (vit.class_token if token is None else token).expand(len(x), -1, -1)
    return torch.cat([x, token] if last else [token, x], dim=1)


def _flat_without_permute(vit: VisionTransformer, x: Tensor) -> Tensor:
    x = vit.conv_proj(x).reshape(len(x), -1, vit.hidden_dim)
    return vit.heads(vit.encoder(torch.cat([vit.class_token.expand(len(x), -1, -1), x], dim=1))[:, 0])


def _patches_by_column(vit: VisionTransformer, x: Tensor) -> Tensor:
    x = vit.conv_proj(x).transpose(2, 3).flatten(2).transpose(1, 2)
    return vit.heads(vit.encoder(torch.cat([vit.class_token.expand(len(x), -1, -1), x], dim=1))[:, 0])


VISION_TRANSFORMER = Exercise(
    name="vision_transformer",
    answer="MyVisionTransformer",
    stars=3,
    reference=_vision_transformer,
    run=_run_vision_transformer,
    mutants=(
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x, last=True))[:, -1]),
            "put the class token last and read it there. Each token then gets another token's position embedding. "
            "Put the class token first: torch.cat([class_token, x], dim=1)",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x, last=True))[:, 0]),
            "put the class token last and read token 0, which is then a patch. Put the class token first",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x))[:, -1]),
            "read the last token. The class token comes first: x[:, 0]",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x))[:, 1]),
            "read token 1, the first patch. The class token is token 0: x[:, 0]",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x))),
            "send all tokens to the heads, which gives logits for each token. Only the class token goes there: x[:, 0]",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x)).mean(dim=1)),
            "take the mean over all tokens. Only the class token goes to the heads: x[:, 0]",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x))[:, 1:].mean(dim=1)),
            "take the mean over the patches. Only the class token goes to the heads: x[:, 0]",
        ),
        _mutant(
            _flat_without_permute,
            "reshape to (n, patches, hidden_dim) without permute. A token then mixes one number of many patches. "
            "Flatten the last two axes first, then swap the last two: flatten(2).transpose(1, 2)",
        ),
        _mutant(
            _patches_by_column,
            "count the patches down the columns. Keep the order (row, column) when you flatten the patch axes",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x, torch.zeros_like(vit.class_token)))[:, 0]),
            "put zeros in front and not self.class_token. It starts at zero, but it is a parameter: it is learned",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder.ln(vit.encoder.layers(_sequence(vit, x)))[:, 0]),
            "apply the encoder's blocks and its norm yourself, without the position embedding. "
            "Call self.encoder(x): it adds it",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x) + vit.encoder.pos_embedding)[:, 0]),
            "add the position embedding before you call the encoder. The encoder adds it itself, so it is there twice",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder.layers(_sequence(vit, x) + vit.encoder.pos_embedding)[:, 0]),
            "leave out the encoder's last norm. Call self.encoder(x): it does all of its steps",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder.layers(_sequence(vit, x))[:, 0]),
            "apply only the encoder's blocks, without position embedding and last norm. Call self.encoder(x)",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder.ln(vit.encoder(_sequence(vit, x)))[:, 0]),
            "normalise once more after the encoder. The encoder ends with its norm already",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x))[:, 0]).softmax(dim=-1),
            "apply softmax at the end. The model gives logits; the loss makes probabilities of them",
        ),
        _mutant(
            lambda vit, x: vit.heads(vit.encoder(_sequence(vit, x))[:, 0]).log_softmax(dim=-1),
            "apply log_softmax at the end. The model gives logits; the loss makes probabilities of them",
        ),
    ),
    hints=(
        "Five steps: conv_proj, make a sequence of it, the class token in front, encoder, heads on the class token. "
        "Write down the shape after each; conv_proj gives (n, hidden_dim, n_h, n_w), the encoder wants "
        "(n, seq_length, hidden_dim).",
        "From (n, hidden_dim, n_h, n_w) to a sequence: flatten the last two axes, then swap the last two. The class "
        "token is (1, 1, hidden_dim): expand it to the n images, then torch.cat along dim=1, class token first. "
        "The encoder adds the position embedding itself.",
        "x = self.conv_proj(x).flatten(2).transpose(1, 2); token = self.class_token.expand(x.shape[0], -1, -1); "
        "x = self.encoder(torch.cat([token, x], dim=1)); return self.heads(x[:, 0])",
    ),
)

EXERCISES: tuple[Exercise, ...] = (VISION_TRANSFORMER, COUNT_TOKENS, CLASS_HEAD_START, PATCHIFY)
