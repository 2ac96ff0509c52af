"""``check.vit`` on other people's Vision Transformers: right ones pass in any style, wrong ones are
told apart."""

import random
import re
import sys
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torchvision
from published_vits import (
    ByHeads,
    Dense,
    Heads,
    Lucid,
    Norm,
    NoToken,
    PatchNorms,
    Plain,
    Scaled,
    Separate,
    Slices,
    plain,
)
from torch import nn

import mnist_vit
from mnist_vit.__main__ import main
from mnist_vit.course.checking.edits import edited_model
from mnist_vit.course.whole_vit import judge_vit, vit
from mnist_vit.course.whole_vit.building import SIZES, takes_sizes
from mnist_vit.course.whole_vit.explaining import Setting, our_values
from mnist_vit.course.whole_vit.slips import SLIPS

TINY = {
    "image_size": 8,
    "patch_size": 4,
    "num_layers": 3,
    "num_heads": 2,
    "hidden_dim": 6,
    "mlp_dim": 10,
}
SQUARE = TINY | {"mlp_dim": TINY["hidden_dim"]}


class Answer:
    def __init__(self, logits):
        self.logits = logits


def plain_norm(d):
    return nn.LayerNorm(d, eps=1e-6)


def parts(make, **pieces):
    """A block whose parts are other ones, made in the order that ``make`` gives."""

    def block(self, *sizes):
        changed = make(*sizes)
        kept = {n: part for n, part in Plain.block(self, *sizes).items() if n not in changed}
        return changed | kept

    return plain(block=block, **pieces)


def layers(**options):
    def block(self, *sizes):
        return {"all": nn.TransformerEncoderLayer(*sizes, batch_first=True, **options)}

    return plain(block=block, layer=lambda s, b, x: b.all(x))


class OwnHead(nn.Module):
    """One head, with one matrix for its queries, keys and values."""

    def __init__(self, d, side):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * side)


class OwnHeads(Plain):
    def block(self, d, h, m):
        heads = nn.ModuleList(OwnHead(d, d // h) for _ in range(h))
        return Plain.block(self, d, h, m) | {"qkv": heads}

    def attend(self, b, x):
        outs = []
        for head in b.qkv:
            q, k, v = head.qkv(x).chunk(3, dim=-1)
            outs.append(self.weigh(q, k) @ v)
        return b.proj(torch.cat(outs, dim=-1))


class Unused(Separate):
    """A matrix for queries, keys and values stands before those that are used."""

    def block(self, d, h, m):
        return {"all": nn.Linear(d, 3 * d), **super().block(d, h, m)}


class WholeRatio(Plain):
    """The width of the MLPs is a whole number of times that of the tokens."""

    def __init__(self, image_size, patch_size, depth, num_heads, dim, mlp_ratio=4, num_classes=9):
        sizes = (image_size, patch_size, depth, num_heads, dim, dim * mlp_ratio)
        super().__init__(*sizes, num_classes)


class FlatPatches(Lucid):
    """Patches are projected by x @ W."""

    embed = staticmethod(lambda d, p: Dense(3 * p**2, d))


def without_number(model):
    """The model without the attribute that tells the number of its heads."""
    del model.num_heads
    return model


def used_before() -> nn.Module:
    """A model that keeps what it computed, with the graph."""

    def layer(self, b, x):
        self.kept = [Plain.layer(self, b, x)]
        return self.kept[0]

    model = plain(layer=layer)(**TINY)
    model(torch.zeros(1, 3, 8, 8))
    return model


EXACT = {  # equal bit for bit
    "torchvision": torchvision.models.VisionTransformer,
    "ours": mnist_vit.VisionTransformer,
    "torchvision, built": torchvision.models.VisionTransformer(**TINY),
    "ours, built": mnist_vit.VisionTransformer(**TINY, representation_size=5, in_channels=1),
    "MLPs as wide as the tokens": lambda: torchvision.models.VisionTransformer(**SQUARE),
    "vit_mnist": mnist_vit.vit_mnist,
    "nn.TransformerEncoderLayer": layers(
        dropout=0.1, activation="gelu", layer_norm_eps=1e-6, norm_first=True
    ),
}
RIGHT = EXACT | {
    "ours from scratch": edited_model(),
    "a function of nothing": lambda: Plain(**TINY, dropout=0.0),
    "timm": Plain,
    "lucidrains": Lucid,
    "separate": Separate,
    "heads": Heads,
    "x @ W": plain(Separate, linear=Dense, block=Plain.block, attend=Plain.attend),
    "an axis for the heads": ByHeads,
    "a tuple": plain(forward=lambda s, x: (Plain.forward(s, x), None)),
    ".logits": plain(forward=lambda s, x: Answer(Plain.forward(s, x))),
    "norms made last": parts(lambda d, h, m: {"norm2": plain_norm(d), "norm1": plain_norm(d)}),
    "square matrices only": lambda: Separate(**SQUARE),
    "a head's own matrix": OwnHeads,
    "heads of an unknown number": lambda: without_number(Heads(**TINY)),
    "four heads' own matrices": lambda: OwnHeads(**TINY | {"num_heads": 4, "hidden_dim": 8}),
    "six heads' own matrices": lambda: OwnHeads(**TINY | {"num_heads": 6, "hidden_dim": 12}),
    "three matrices in a list": parts(
        lambda d, h, m: {"qkv": nn.ModuleList(nn.Linear(d, d) for _ in range(3))},
        split=lambda s, b, x: [
            part(x).unflatten(-1, (s.num_heads, -1)).transpose(1, 2) for part in b.qkv
        ],
    ),
    "a layer that is not used": Unused,
    "a whole mlp_ratio": WholeRatio,
    "patches by x @ W": lambda: FlatPatches(
        image_size=12, patch_size=4, num_classes=5, dim=24, depth=2, heads=3, mlp_dim=40
    ),
    "used before": used_before(),
    "in float32": plain(patches=lambda s, x: Plain.patches(s, x.float())),
}


def without_batch_first():
    def block(self, *sizes):
        return {"all": nn.TransformerEncoderLayer(*sizes)}

    return plain(block=block, layer=lambda s, b, x: b.all(x))


def weigh(scores, dim=-1):
    return plain(weigh=lambda s, q, k: scores(s, q, k.mT).softmax(dim))


def later_masked(scores):
    return scores - 1e9 * torch.ones_like(scores).triu(1)


def serial(b, x, msa, mlp):
    """Without the first residual connection."""
    y = msa(b.norm1(x))
    return y + mlp(b.norm2(y))


def post_norm(b, x, msa, mlp):
    y = b.norm1(x + msa(x))
    return b.norm2(y + mlp(y))


def layer(how):
    return plain(
        layer=lambda s, b, x: how(b, x, lambda x: s.attend(b, x), lambda x: b.fc2(s.act(b.fc1(x))))
    )


def with_stem(self, *sizes):
    blocks = Plain.stack(self, *sizes)
    del self.patch_embed
    self.stem = nn.Conv2d(3, 3, 5, padding=2)
    self.patch_embed = self.embed(sizes[1], self.p)
    return blocks


def wide(d):
    return nn.Sequential(nn.Linear(d, 30), nn.GELU(), nn.Linear(30, d))


def second_gelu(b, x):
    return x + F.gelu(b.fc2(F.gelu(b.fc1(b.norm2(x)))))


def with_norms(s, d, h, m):
    return Plain.block(s, d, h, m) | {"norm1": plain_norm(d), "norm2": plain_norm(d)}


def one_norm(self, *sizes):
    parts = Plain.block(self, *sizes)
    return parts | {"norm2": parts["norm1"]}


def no_mean(d):
    def forward(self, x):
        return self.bias + F.rms_norm(x, x.shape[-1:], self.weight, 1e-6)

    return type("NoMean", (nn.LayerNorm,), {"forward": forward})(d, eps=1e-6)


class Rms(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x / torch.sqrt((x**2).mean(-1, keepdim=True) + self.eps) * self.gamma


def waves(x):
    """Sines for all tokens."""
    number = torch.arange(x.shape[1] + 1, dtype=x.dtype)[:, None]
    return torch.sin(number / 10 ** (torch.arange(x.shape[2]) / x.shape[2]))[None]


class FourTimes(Plain):
    """One block, which is called four times; positions made in forward; scores without a scale."""

    last = nn.LayerNorm

    def stack(self, n, *sizes):
        return nn.ModuleList(nn.ModuleDict(self.block(*sizes)) for _ in range(1))

    def tokens(self, x):
        return torch.cat((self.cls_token.repeat(len(x), 1, 1), x), dim=1) + waves(x)

    def weigh(self, q, k):
        return (q @ k.mT).softmax(dim=-1)

    def encode(self, x):
        for _ in range(4):
            x = self.layer(self.blocks[0], x)
        return self.norm(x)


NAMED = {  # the model, and what the verdict must name
    "no scale": (weigh(lambda s, q, k: q @ k), "do not scale"),
    "scaled twice": (weigh(lambda s, q, k: q * s.scale @ k * s.scale), "by head_dim, or twice"),
    "scale by width": (
        weigh(lambda s, q, k: q @ k / (s.num_heads * q.shape[-1]) ** 0.5),
        "√hidden_dim",
    ),
    "softmax over queries": (weigh(lambda s, q, k: q * s.scale @ k, -2), "over the queries"),
    "causal": (
        weigh(lambda s, q, k: later_masked(q * s.scale @ k)),
        "mask later tokens",
    ),
    "reshaped into heads": (
        plain(
            split=lambda s, b, x: [
                t.reshape(len(x), s.num_heads, x.shape[1], -1) for t in b.qkv(x).chunk(3, -1)
            ]
        ),
        "split into heads by reshape",
    ),
    "interleaved": (
        plain(
            split=lambda s, b, x: (
                b.qkv(x).unflatten(-1, (3, -1, s.num_heads)).permute(2, 0, 4, 1, 3)
            )
        ),
        "into interleaved",
    ),
    "merged without transpose": (
        plain(merge=lambda s, x: x.reshape(len(x), x.shape[2], -1)),
        "merge the heads",
    ),
    "k, q, v": (
        plain(split=lambda s, b, x: [Plain.split(s, b, x)[i] for i in (1, 0, 2)]),
        r"\(k, q, v\)",
    ),
    "no output projection": (
        parts(lambda *a: {"proj": nn.Identity()}),
        "yours lacks: .*out_proj.*\n.*everything is equal",
    ),
    "one projection for all": (
        plain(split=lambda s, b, x: [Plain.split(s, b, x)[0]] * 3),
        "projection of the queries for the keys and the values",
    ),
    "values by the keys' projection": (
        plain(split=lambda s, b, x: [Plain.split(s, b, x)[i] for i in (0, 1, 1)]),
        "projection of the keys for the values",
    ),
    "a head's own q, k, v": (
        plain(
            split=lambda s, b, x: (
                b.qkv(x).unflatten(-1, (s.num_heads, -1)).transpose(1, 2).chunk(3, -1)
            )
        ),
        r"\(num_heads, 3, head_dim\)",
    ),
    "no batch_first": (
        parts(
            lambda d, h, m: {"qkv": nn.MultiheadAttention(d, h), "proj": nn.Identity()},
            attend=lambda s, b, x: b.qkv(x, x, x)[0],
        ),
        "batch_first=True",
    ),
    "no batch_first, post-norm": (
        without_batch_first(),
        "(?s)all together:.*post-norm.*the pictures of a batch attend.*- use ReLU",
    ),
    "fixed positions, all tokens": (
        plain(
            positions=lambda s, n, d: nn.Parameter(torch.randn(1, n, d), requires_grad=False),
            pool=lambda s, x: x,
        ),
        "(?s)send all tokens.*Your position embedding, pos_embed, has requires_grad=False",
    ),
    "no first residual": (
        layer(serial),
        "the first residual",
    ),
    "no second residual": (
        layer(lambda b, x, msa, mlp: mlp(b.norm2(x + msa(b.norm1(x))))),
        "the second residual",
    ),
    "post-norm": (
        layer(post_norm),
        "post-norm",
    ),
    "parallel": (
        layer(lambda b, x, msa, mlp: x + msa(b.norm1(x)) + mlp(b.norm2(x))),
        "side by side",
    ),
    "ReLU": (plain(act=lambda s, x: F.relu(x)), "ReLU instead"),
    "tanh GELU": (plain(act=lambda s, x: F.gelu(x, approximate="tanh")), "tanh approximation"),
    "no bias": (
        parts(lambda d, h, m: {"fc2": nn.Linear(m, d, bias=False)}),
        r"yours lacks: \S*mlp.3.bias.*\n.*everything is equal",
    ),
    "no positions": (plain(tokens=lambda s, x: s.cat(x)), "forget the position"),
    "positions before": (
        plain(tokens=lambda s, x: s.cat(x + s.pos_embed[:, 1:])),
        "to the patches only",
    ),
    "class token last": (
        plain(tokens=lambda s, x: s.cat(x).roll(-1, 1) + s.pos_embed, pool=lambda s, x: x[:, -1]),
        "append the class token last",
    ),
    "mean of the patches": (
        plain(pool=lambda s, x: x[:, 1:].mean(1)),
        "heads the mean over the patches",
    ),
    "all tokens": (plain(pool=lambda s, x: x), "send all tokens"),
    "softmax on the logits": (
        plain(forward=lambda s, x: Plain.forward(s, x).softmax(-1)),
        "softmax to the logits",
    ),
    "no last norm": (
        plain(encode=lambda s, x: s.layer(s.blocks[1], s.layer(s.blocks[0], x))),
        "forget the last norm",
    ),
    "torch's eps": (plain(last=nn.LayerNorm), "eps at torch's default"),
    "reversed": (
        plain(encode=lambda s, x: s.norm(s.layer(s.blocks[0], s.layer(s.blocks[1], x)))),
        "in reverse",
    ),
    "one block in the list": (
        plain(stack=lambda s, n, *a: nn.ModuleList([nn.ModuleDict(s.block(*a))] * n)),
        "reuse one block",
    ),
    "one block": (
        plain(
            stack=lambda s, n, *a: Plain.stack(s, 1, *a),
            encode=lambda s, x: s.norm(s.layer(s.blocks[0], s.layer(s.blocks[0], x))),
        ),
        "reuse one block",
    ),
    "columns first": (
        plain(patches=lambda s, x: s.patch_embed(x).mT.flatten(2).mT),
        "column by column",
    ),
    "reshaped patches": (
        plain(patches=lambda s, x: s.patch_embed(x).reshape(len(x), -1, 24)),
        "reshape .* straight",
    ),
    "no tanh": (plain(squash=nn.Identity), "with it, .* leave out tanh"),
    "norms of the patches": (
        PatchNorms,
        r"leave LayerNorm's eps.*\nYours has, ours lacks: patch_embed.0 \(LayerNorm of 48"
        r" numbers\), patch_embed.2 \(LayerNorm\)\.",
    ),
    "no class token": (
        NoToken,
        "(?s)all together:.*- use no class token.*- pass to the heads the mean over all tokens"
        ".*positions_fixed, is no parameter",
    ),
    "scaled branches": (
        Scaled,
        r"(?s)ours lacks: blocks.0.k_norm \(LayerNorm of 8 numbers\).*blocks.0.ls \(Times\)"
        ".*no row for the class token.*everything is equal",
    ),
    "slices for heads": (
        Slices,
        r"Ours has, yours lacks: \S*out_proj.weight .*\nEach of your heads sees only its own slice"
        r" of a token: .*\(8, 8\).*\n.*everything is equal",
    ),
    "a second GELU behind another eps": (
        plain(
            last=nn.LayerNorm,
            weigh=lambda s, q, k: (q @ k.mT / (s.num_heads * q.shape[-1]) ** 0.5).softmax(-1),
            layer=lambda s, b, x: second_gelu(b, x + s.attend(b, b.norm1(x))),
        ),
        "(?s)all together:.*- leave LayerNorm's eps.*- divide the scores by √hidden_dim.*- apply"
        " GELU after",
    ),
    "mean, then norm": (
        plain(
            encode=lambda s, x: s.layer(s.blocks[1], s.layer(s.blocks[0], x)),
            pool=lambda s, x: s.norm(x[:, 1:].mean(1)),
        ),
        "mean over the patches first and normalise it then",
    ),
    "rows and scale": (
        plain(
            split=lambda s, b, x: (
                b.qkv(x).unflatten(-1, (s.num_heads, -1, 3)).permute(4, 0, 2, 1, 3).unbind(0)
            ),
            weigh=lambda s, q, k: (q @ k.mT).softmax(-1) / (s.num_heads * q.shape[-1]) ** 0.5,
        ),
        r"(?s)all together:.*√hidden_dim after the softmax.*\(num_heads, head_dim, 3\)",
    ),
    "one norm under two names": (
        plain(block=one_norm),
        r"exactly this when you use ln_1 in both places\. ",
    ),
    "a layer behind the blocks": (
        plain(
            pool=lambda s, x: x[:, 0] + s.more(x[:, 0]),
            stack=lambda s, n, d, *a: setattr(s, "more", wide(d)) or Plain.stack(s, n, d, *a),
        ),
        r"ours lacks: more.0.weight \(30, 24\).*\n.*everything is equal",
    ),
    "no head": (
        plain(forward=lambda s, x: s.pool(s.encode(s.tokens(s.patches(x))))),
        "(?s)the output is no logits.*use no class head.*does not use head.weight, head.bias",
    ),
    "no head, all tokens": (
        plain(pool=lambda s, x: x, forward=lambda s, x: s.pool(s.encode(s.tokens(s.patches(x))))),
        r"(?s)no logits.*all together:.*- return all tokens\. .*- use no class head\. ",
    ),
    "no head, the mean": (
        plain(forward=lambda s, x: s.encode(s.tokens(s.patches(x))).mean(1)),
        r"(?s)no logits.*\n- return the mean over all tokens\. ",
    ),
    "positions made in forward": (
        plain(tokens=lambda s, x: s.cat(x) + waves(x), act=lambda s, x: F.relu(x)),
        r"(?s)exactly this when you use ReLU.*same numbers to the tokens of every picture.*"
        r"Apart from the positions, the first value that differs is the input of bl",
    ),
    "positions made in forward, without a class token": (
        type("C", (NoToken,), {"tokens": lambda s, x: x + waves(x)[:, 1:]}),
        "(?s)- use no class token.*same numbers to the tokens of every picture",
    ),
    "one block, whatever the depth": (
        FourTimes,
        r"(?s)- reuse one block.*\n- do not scale the scores.*\nIt was given num_layers=2 for the"
        r" number of its blocks, and 4 run\..*the first value that differs is the softmax.*"
        r"encoder_layer_0\.",
    ),
    "one block, whatever the depth, built": (FourTimes(**TINY), "- do not scale the scores"),
    "class token last, and the mean": (
        plain(
            tokens=lambda s, x: s.cat(x).roll(-1, 1) + s.pos_embed,
            pool=lambda s, x: x.mean(1),
            act=lambda s, x: F.relu(x),
        ),
        r"(?s)- append the class token last\. It comes first.*- use ReLU.*the mean over all tokens",
    ),
    "square MLPs with a second GELU": (
        lambda: plain(Separate, layer=lambda s, b, x: second_gelu(b, x + s.attend(b, b.norm1(x))))(
            **SQUARE
        ),
        "exactly this when you apply GELU after the MLP's second layer",
    ),
    "one norm in each block, and more": (
        plain(
            block=lambda s, *a: {n: p for n, p in Plain.block(s, *a).items() if n != "norm2"},
            layer=lambda s, b, x: s.think(b, x + s.attend(b, b.norm1(x))),
            think=lambda s, b, x: x + F.gelu(b.fc2(F.relu(b.fc1(b.norm1(x))))),
        ),
        "(?s)all together:\n- use ln_1 in both places.*- use ReLU.*- apply GELU after",
    ),
    "scrambled patches, and heads of their own with another scale": (
        type(
            "C",
            (Heads,),
            {
                "patches": lambda s, x: s.patch_embed(x).reshape(len(x), -1, 24),
                "weigh": lambda s, q, k: (q @ k.mT / s.head.in_features**0.5).softmax(dim=-1),
            },
        ),
        "(?s)straight to .*- divide the scores by √hidden_dim",
    ),
    "another eps in the last norm": (
        plain(norm_of_blocks=plain_norm, last=nn.LayerNorm, block=lambda s, *a: with_norms(s, *a)),
        "leave the last norm's eps at torch's default",
    ),
    "no mean in the norm": (
        plain(last=staticmethod(no_mean)),
        "use RMSNorm instead of LayerNorm. LayerNorm",
    ),
    "RMSNorm of one's own": (
        plain(last=Rms),
        r"exactly this when you use RMSNorm instead of LayerNorm\. .*\n.*yours lacks: .*ln_1.bias",
    ),
    "RMSNorm of another eps": (
        plain(last=staticmethod(partial(Rms, eps=1e-7))),
        "(?s)all together:\n- set RMSNorm's eps to 1e-07.*\n- use RMSNorm",
    ),
    "torch's RMSNorm as the last norm": (
        plain(last=nn.RMSNorm, block=lambda s, *a: with_norms(s, *a)),
        "(?s)- set RMSNorm's eps to 1.19209e-07.*- use RMSNorm instead of LayerNorm as the last",
    ),
    "RMSNorm, and no last norm": (
        plain(last=Rms, encode=lambda s, x: s.layer(s.blocks[1], s.layer(s.blocks[0], x))),
        "(?s)all together:\n- use RMSNorm.*- forget the last norm",
    ),
    "three mistakes": (layers(), "(?s)all together:.*- leave the eps.*- .*post-norm.*- use ReLU"),
}
TOLD = {  # mistakes without a name: where, or what can be seen; and odd input
    "a fixed scale": (
        weigh(lambda s, q, k: q @ k * 50**-0.5),
        "Each row of scores.* is ours times 0.4",
    ),
    "one mistake with a name, and one without": (
        plain(
            merge=lambda s, x: x.reshape(len(x), x.shape[2], -1),
            act=lambda s, x: F.gelu(F.relu(x)),
        ),
        r"(?s)Apart from what is told below, the first value that differs is .* mlp\.3 .*is ReLU of"
        r" ours.*put right before the comparison:\n- you merge the heads by reshape",
    ),
    "no gradient": (
        plain(tokens=lambda s, x: Plain.tokens(s, x).detach()),
        "gradient of cls_token: none flows",
    ),
    "dropout in eval mode": (
        plain(pool=lambda s, x: F.dropout(x[:, 0], 0.1)),
        "other logits each time, in eval mode.*Apart from this everything is equal",
    ),
    "other in train mode": (
        plain(pool=lambda s, x: (1 + s.training) * x[:, 0]),
        "right in eval mode; in train mode",
    ),
    "a token drawn anew": (
        plain(
            cat=lambda s, x: torch.cat((torch.randn(len(x), 1, x.shape[2]), x), dim=1),
        ),
        r"other logits each time.*forward draws random numbers \(randn\)",
    ),
    "no logits": (
        plain(forward=lambda s, x: [None, s.head]),
        "must be logits, but is a list",
    ),
    "no expand": (
        plain(tokens=lambda s, x: torch.cat((s.cls_token, x), 1)),
        "in the line `.*: Sizes of tensors",
    ),
    "nothing back": (plain(forward=lambda s, x: None), "is None: is the return line missing"),
    "frozen": (
        plain(linear=lambda s, *sizes: nn.Linear(*sizes).requires_grad_(False)),
        "and a gradient is not. .*qkv.weight.*: requires_grad is False",
    ),
    "scaled_dot_product_attention in eval mode": (
        plain(
            attend=lambda s, b, x: b.proj(
                s.merge(F.scaled_dot_product_attention(*s.split(b, x), dropout_p=0.1))
            )
        ),
        "scaled_dot_product_attention does not know the mode: give it dropout_p=p if self.train",
    ),
    "a token for each picture": (
        lambda: plain(cat=lambda s, x: torch.cat((s.cls_token.expand(4, -1, -1), x), 1))(**TINY),
        "It must take any number of square pictures",
    ),
    "lazy": (plain(embed=lambda s, d, p: nn.LazyConv2d(d, p, p)), "has no shape yet, as a lazy"),
    "sizes that do not fit": (
        plain(positions=lambda s, n, d: nn.Parameter(torch.zeros(1, 7, d))),
        "It was built with image_size=12, patch_size=4, num_layers=2",
    ),
    "without arguments": (
        type("C", (nn.Module,), {"__init__": lambda self, config=None: config.size}),
        "It was built without arguments",
    ),
    "changed pictures": (
        plain(patches=lambda s, x: Plain.patches(s, x.mul_(2))),
        "changed in place",
    ),
    "ignored width": (
        plain(block=lambda s, d, h, m: Plain.block(s, d, h, 72)),
        "given mlp_dim=48 for the width of its MLPs, and they are 72 wide",
    ),
    "exit": (plain(forward=lambda s, x: sys.exit(3)), "SystemExit in the line"),
    "pictures mixed": (
        plain(patches=lambda s, x: Plain.patches(s, x - x.mean(0))),
        "is the input of conv_proj",
    ),
    "a number": (42, "this is 42"),
    "nothing": (None, "nothing was given"),
    "no module": (dict, "an nn.Module is needed"),
    "a linear layer": (nn.Linear(3, 4), "cannot be read off"),
    "config": (
        type("C", (nn.Module,), {"__init__": lambda self, config: None}),
        "its argument config",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_ones_pass_in_any_style(name: str) -> None:
    passed, lines = judge_vit(RIGHT[name])
    assert passed, lines
    assert "correct: logits equal to ours" in lines[0]
    assert ("bit for bit" in lines[0]) == (name in EXACT)


@pytest.mark.parametrize("name", NAMED | TOLD)
def test_wrong_ones_are_told_apart(name: str) -> None:
    model, needed = (NAMED | TOLD)[name]
    passed, lines = judge_vit(model)
    assert not passed, lines
    assert re.search(needed, "\n".join(lines)), lines
    if name in TOLD:  # no wrong name
        assert "exactly" not in lines[0], lines
        assert not any("cannot be compared" in line for line in lines), lines


def test_every_known_slip_is_told_from_all_others() -> None:
    """Each edit still applies to mnist_vit.model, and gives values that no other slip gives."""
    sizes = {name: size for name, size in SIZES.items() if "dropout" not in name}
    sizes |= {"representation_size": 7, "in_channels": 3}
    setting, seen = Setting(tuple(sorted(sizes.items())), (), torch.float64), {}
    for slip in ((), *((slip,) for slip in SLIPS)):
        prints = tuple(
            round(float(value.abs().sum()), 6) for value in our_values(setting, *slip).values()
        )
        assert seen.setdefault(prints, slip) == slip
    assert len(seen) > 60


def test_nothing_is_disturbed(capsys: pytest.CaptureFixture[str]) -> None:
    model = mnist_vit.VisionTransformer(**TINY, dropout=0.5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    vit(model)
    vit(plain(pool=lambda s, x: x[:, 1] * len(torch.rand(1)) if print("loud") is None else x))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]
    assert torch.get_default_dtype() == torch.float32
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(
        parameter.grad is None and parameter.dtype == torch.float32
        for parameter in model.parameters()
    )
    said = capsys.readouterr().out
    assert said.startswith("vit: correct")
    assert "loud" not in said


def test_options_reach_the_model() -> None:
    assert judge_vit(Plain, num_heads=2, num_layers=3)[0]
    assert not judge_vit(Plain, num_heads=5)[0]
    assert judge_vit(mnist_vit.VisionTransformer, in_channels=1)[0]


def test_channels_that_a_model_does_not_take_are_told() -> None:
    passed, lines = judge_vit(lambda: Plain(**TINY), in_channels=1)
    assert not passed
    assert "expected input" in lines[0]
    assert "3 channels" in lines[0]


def heads_by_hand() -> nn.Module:
    """A model that keeps its number of heads where nobody finds it, and no softmax tells it."""
    model = Separate(**TINY)
    model.parts = model.num_heads
    del model.num_heads
    model.attend = lambda b, x: Separate.attend(Split(model.parts), b, x)
    return model


class Split:
    def __init__(self, num_heads):
        self.num_heads = num_heads


def test_convolutions_before_the_patches_are_told() -> None:
    model = plain(patches=lambda s, x: Plain.patches(s, s.stem(x)), stack=with_stem)
    passed, lines = judge_vit(lambda: model(**TINY), image_size=8)
    assert not passed
    assert "Yours has, ours lacks: stem (Conv2d of 225 numbers)." in lines
    assert "Apart from this everything is equal." in lines


def test_an_unknown_number_of_heads_is_asked_for_with_the_call() -> None:
    passed, lines = judge_vit(heads_by_hand())
    assert not passed
    assert "check.vit(model, num_heads=…)" in lines[0]
    assert judge_vit(heads_by_hand(), num_heads=2)[0]


def of_width(inner, **pieces):
    """Attention whose heads are inner numbers wide, all together; scores are not scaled."""

    def make(d, h, m):
        return {"qkv": nn.Linear(d, 3 * inner, bias=False), "proj": nn.Linear(inner, d)}

    return parts(make, weigh=lambda s, q, k: (q @ k.mT).softmax(-1), **pieces)


def of_width_by_parts(inner):
    """Matrices for queries, keys and values; the last of them and proj look like an MLP."""

    def block(self, d, h, m):
        kept = Plain.block(self, d, h, m)
        layers = {name: nn.Linear(d, inner) for name in "qkv"} | {"proj": nn.Linear(inner, d)}
        return {"norm1": kept["norm1"], **layers, **{n: kept[n] for n in ("norm2", "fc1", "fc2")}}

    def split(self, b, x):
        several = (b.q(x), b.k(x), b.v(x))
        return [one.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for one in several]

    return plain(block=block, split=split)


OTHER_WIDTHS = {
    "narrow": of_width(12),
    "narrow, another eps": of_width(12, last=nn.LayerNorm),
    "as wide as the MLP": of_width(48),
    "as qkv is": of_width(72),
    "by parts": of_width_by_parts(12),
    "by parts, as wide as the MLP": of_width_by_parts(48),
    "by parts, wider": of_width_by_parts(96),
}


@pytest.mark.parametrize("name", OTHER_WIDTHS)
def test_attention_of_another_width_is_told_and_not_compared(name: str) -> None:
    passed, lines = judge_vit(OTHER_WIDTHS[name])
    said = "\n".join(lines)
    assert not passed
    assert re.search(
        r"head_dim = \d+ wide, and ours hidden_dim = 24: attention is not compared", said
    ), said
    assert "no other difference was found" in said
    assert not re.search("exactly|equal|no bias for|self_attention.*matched|matched.*attn", said)
    assert ("LayerNorm's eps at torch's default" in said) == ("eps" in name)


class BatchNorm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.mT).mT


class OneForAll(Plain):
    """One norm in all places of all blocks."""

    def stack(self, n, d, *more):
        self.the_norm = plain_norm(d)
        return super().stack(n, d, *more)

    def block(self, *sizes):
        parts = Plain.block(self, *sizes)
        return {name: parts[name] for name in ("qkv", "proj", "fc1", "fc2")}

    def layer(self, b, x):
        x = x + self.attend(b, self.the_norm(x))
        return x + b.fc2(self.act(b.fc1(self.the_norm(x))))


def low_rank(d, h, m):
    return {"proj": nn.Sequential(nn.Linear(d, 5), nn.Linear(5, d))}


@pytest.mark.parametrize(
    ("model", "needed"),
    [
        (
            plain(last=BatchNorm),
            r"norm1 \(BatchNorm\) may .* block 0's ln_1: .*\n.* of encoder.ln: these",
        ),
        (OneForAll, r"the_norm \(LayerNorm\) may stand in place of block 0's ln_1: these"),
        (parts(low_rank), r"proj.0 \(Linear\) may stand in place of block 0's self_attention.out"),
    ],
)
def test_what_stands_in_place_of_ours_is_told_and_not_compared(model: type, needed: str) -> None:
    passed, lines = judge_vit(model)
    said = "\n".join(lines)
    assert not passed
    assert re.search(needed, said), said
    assert not re.search("exactly|equal|first value", said), said


def test_shared_keys_and_values_are_told_and_not_compared() -> None:
    def block(self, d, h, m):
        kept = Plain.block(self, d, h, m)
        layers = {"to_q": nn.Linear(d, d), "to_k": nn.Linear(d, d // h)}
        return kept | layers | {"to_v": nn.Linear(d, d // h), "qkv": nn.Identity()}

    def split(self, b, x):
        q = b.to_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return q, b.to_k(x).unsqueeze(1), b.to_v(x).unsqueeze(1)

    passed, lines = judge_vit(plain(block=block, split=split))
    assert not passed
    assert any(
        "The matrices for its keys give 8 numbers, all heads together, and ours 24: " in line
        for line in lines
    )
    assert not re.search("exactly|equal", "".join(lines))


def test_matrices_that_all_heads_share_are_told_and_not_compared() -> None:
    def block(self, d, h, m):
        kept = Plain.block(self, d, h, m)
        layers = {name: nn.Linear(d // h, d // h) for name in ("to_q", "to_k", "to_v")}
        return {"norm1": kept["norm1"], **layers, **kept, "qkv": nn.Identity()}

    def split(self, b, x):
        own = x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return b.to_q(own), b.to_k(own), b.to_v(own)

    passed, lines = judge_vit(plain(block=block, split=split, last=nn.LayerNorm))
    said = "\n".join(lines)
    assert not passed
    assert re.search(r"matrices of \(8, 8\), which all heads share.*: attention is not", said)
    assert "LayerNorm's eps at torch's default" in said
    assert not re.search("exactly|equal|Ours has|Yours has", said), said


def test_a_model_of_many_differences_is_not_called_another_kind() -> None:
    def block(self, d, h, m):
        third = {f"more{i}": nn.Linear(d, d + i) for i in range(8)}
        return Plain.block(self, d, h, m) | third

    def layer(self, b, x):
        for i in range(8):
            x = x + b[f"more{i}"](x)[..., : x.shape[-1]]
        return Plain.layer(self, b, x)

    no_token = {"cat": lambda s, x: torch.cat((s.other[: len(x)], x), 1)}
    sizes = {"stack": lambda s, *a: setattr(s, "other", others(a[1])) or Plain.stack(s, *a)}
    _, lines = judge_vit(plain(block=block, layer=layer, last=nn.Identity, **no_token, **sizes))
    assert not any("another kind" in line for line in lines), lines


def others(d):
    return nn.Parameter(torch.randn(1100, 1, d))


def test_values_that_cannot_be_compared_are_not_called_equal() -> None:
    def forward(self, x):
        return 2 * torch.cat([Plain.forward(self, picture[None]) for picture in x])

    _, lines = judge_vit(plain(forward=forward))
    assert "None of the values on the way could be compared." in lines
    assert not any("equal" in line for line in lines), lines


def test_a_dropout_that_an_argument_of_another_name_switches_off() -> None:
    class Mine(Plain):
        def __init__(self, attention_p=0.1, rate=0.3, **sizes):
            super().__init__(**sizes)
            self.drops = nn.ModuleList([nn.Dropout(attention_p), nn.Dropout(rate)])

        def attend(self, b, x):
            return self.drops[1](self.drops[0](Plain.attend(self, b, x)))

    _, lines = judge_vit(Mine)
    assert not any("No argument switches off" in line for line in lines), lines


def test_dropout_that_reaches_nothing_is_told_by_any_name() -> None:
    class Mine(Plain):
        def __init__(self, emb_dropout=0.1, **sizes):
            super().__init__(**sizes)

    passed, lines = judge_vit(Mine)
    assert not passed
    assert "emb_dropout=1 changes nothing" in lines[0]


def test_where_dropout_does_not_act_is_told() -> None:
    class Mine(Plain):
        def __init__(self, p=0.0, **sizes):
            super().__init__(**sizes)
            self.drop = nn.Dropout(p)

        def tokens(self, x):
            return self.drop(Plain.tokens(self, x))

        def attend(self, b, x):
            return self.drop(Plain.attend(self, b, x))

    passed, lines = judge_vit(Mine)
    assert passed
    assert (
        "acts on the tokens and behind the attention; torchvision's also acts on the attention"
        " weights, behind the MLPs' activation and behind the MLPs." in lines[1]
    )
    assert not any("dropout acts" in line for line in judge_vit(EXACT["ours"])[1])


class PostNorm(Plain):
    """Norms behind, and dropout behind the attention and the activation of the MLPs."""

    def __init__(self, *sizes, dropout=0.0, **more):
        super().__init__(*sizes, **more)
        self.drop = nn.Dropout(dropout)

    def layer(self, b, x):
        x = b.norm1(x + self.drop(self.attend(b, x)))
        return b.norm2(x + b.fc2(self.drop(self.act(b.fc1(x)))))


class TwiceDropped(Plain):
    """Dropout twice in a row behind the attention, and with probability 0 behind the MLPs."""

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        self.drop = nn.Dropout(0.1)
        self.none = nn.Dropout(0.0)

    def layer(self, b, x):
        x = x + self.drop(self.drop(self.attend(b, b.norm1(x))))
        return x + self.none(b.fc2(self.act(b.fc1(b.norm2(x)))))


def some_paths(self, b, x):
    """A block with stochastic depth, by hand."""
    y = Plain.layer(self, b, x)
    if not self.training:
        return y
    return torch.where(torch.rand(len(x), 1, 1) < 0.5, x, y)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (PostNorm, "Its dropout acts behind the attention and behind the MLPs' activation; tor"),
        (lambda: PostNorm(**TINY, dropout=0.1), "As built, it has dropout behind the attention "),
        (PostNorm(**TINY), "As built, it has dropout with probability 0 behind the attention and"),
        (
            lambda: TwiceDropped(**TINY),
            "As built, it has dropout behind the attention, and with pr",
        ),
        (TwiceDropped(**TINY), "Dropout acts twice in a row behind the attention."),
        (plain(layer=some_paths), "In train mode it draws other random numbers, too (rand)."),
        (layer(post_norm)(**TINY), "It has no dropout."),
        (lambda: Plain(**TINY), "It has no dropout."),
        (plain(pool=lambda s, x: x[:, 0] * (1 + torch.rand(1) * s.training)), ""),
    ],
)
def test_dropout_is_looked_at_in_functions_models_and_post_norm(answer, said: str) -> None:
    _, lines = judge_vit(answer)
    assert any(said in line for line in lines), lines
    if not said:
        assert not any("no dropout" in line for line in lines), lines


@pytest.mark.parametrize("where", [(), ("weights",), ("attention",), ("hidden",), ("mlp",)])
def test_each_place_of_dropout_is_told(where: tuple[str, ...]) -> None:
    class Mine(Plain):
        def __init__(self, dropout=0.0, **sizes):
            super().__init__(**sizes)
            self.drop = nn.Dropout(dropout)

        def at(self, place, x):
            return x if place in where else self.drop(x)

        def tokens(self, x):
            return self.drop(Plain.tokens(self, x))

        def weigh(self, q, k):
            return self.at("weights", Plain.weigh(self, q, k))

        def attend(self, b, x):
            return self.at("attention", Plain.attend(self, b, x))

        def layer(self, b, x):
            x = x + self.attend(b, b.norm1(x))
            hidden = self.at("hidden", self.act(b.fc1(b.norm2(x))))
            return x + self.at("mlp", b.fc2(hidden))

    words = {
        "weights": "on the attention weights",
        "attention": "behind the attention",
        "hidden": "behind the MLPs' activation",
        "mlp": "behind the MLPs",
    }
    for answer in (Mine, lambda: Mine(**TINY), Mine(**TINY)):
        passed, lines = judge_vit(answer)
        assert passed
        told = [line for line in lines if "; torchvision's" in line]
        assert len(told) == len(where), lines
        for line, place in zip(told, where, strict=True):
            assert line.endswith((f"also acts {words[place]}.", f"is also {words[place]}.")), line


def dropping(change):
    """torchvision's model with the change, which is made once it is built."""

    class Mine(torchvision.models.VisionTransformer):
        def __init__(
            self,
            image_size,
            patch_size,
            num_layers,
            num_heads,
            hidden_dim,
            mlp_dim,
            dropout=0.0,
            attention_dropout=0.0,
            num_classes=10,
        ):
            sizes = (image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim)
            super().__init__(*sizes, dropout, attention_dropout, num_classes)
            change(self)

    return Mine


def drop_before_gelu(model):
    for block in model.encoder.layers:
        block.mlp[1], block.mlp[2] = block.mlp[2], block.mlp[1]


def drop_before_the_head(model):
    model.heads = nn.Sequential(nn.Dropout(0.1), model.heads)


def test_dropout_before_the_activation_is_told() -> None:
    passed, lines = judge_vit(dropping(drop_before_gelu))
    assert not passed
    assert "In its MLPs dropout acts before the activation" in lines[0]
    assert judge_vit(dropping(lambda model: None))[0]


def test_dropout_before_the_head_that_no_argument_switches_off_is_told() -> None:
    _, lines = judge_vit(dropping(drop_before_the_head))
    assert "It has dropout behind the last norm; torchvision's has none there." in lines[1]
    assert "No argument switches off the dropout of heads.0, p = 0.1." in lines[1]


def test_a_function_of_options_is_called_without_any_first() -> None:
    def small(**options):
        return Plain(**TINY | options)

    def needs_them(**options):
        return Plain(**options)

    passed, lines = judge_vit(small)
    assert passed, lines
    assert judge_vit(small, hidden_dim=8)[0]
    passed, lines = judge_vit(needs_them)
    assert passed, lines


def test_models_of_another_kind_are_told_in_one_sentence() -> None:
    model = torchvision.models.swin_transformer.SwinTransformer(
        [4, 4], 12, [2, 2], [2, 2], [3, 3], num_classes=5
    )
    passed, lines = judge_vit(model, image_size=24, num_layers=2)
    assert not passed
    assert any("another kind of model with a relative position bias" in line for line in lines)
    assert len(lines) <= 4


@pytest.mark.parametrize(
    ("text", "options", "code", "said"),
    [
        (
            "from torchvision.models import VisionTransformer as V\nView = V\n",
            ["--name", "V"],
            0,
            "",
        ),
        ("import mnist_vit\ndef make():\n    return 3\n", ["--name", "make"], 1, "came back: 3"),
        ("from torch import nn\nclass A(nn.Module): pass\nclass B(A): pass\n", [], 2, "--name B"),
        ("from torch import nn\nclass MyViT(nn.Module): pass\nclass B(MyViT): pass\n", [], 1, ""),
        ("x = 1\n", [], 2, "no class"),
        ("x = 1\n", ["--name", "y"], 2, "has no --name y"),
        ("1 / 0\n", [], 2, "ZeroDivisionError: division by zero (line 1)"),
        ("from .parts import A\n", [], 2, "It is part of a package: name a file that imports"),
    ],
)
def test_a_file_is_checked_on_the_command_line(
    text: str, options: list[str], code: int, said: str, tmp_path, capsys
) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(text)
    assert main(["check", str(file), *options]) == code
    captured = capsys.readouterr()
    assert said in captured.out + captured.err


class Positioned(Plain):
    """The class token stands in a module of positions, before the table."""

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        table = self.pos_embed
        del self.pos_embed
        self.positional = nn.ParameterDict({"a_token": torch.zeros(1, 1, table.shape[-1])})
        self.positional["table"] = table
        del self.cls_token

    def tokens(self, x):
        token = self.positional["a_token"].expand(len(x), -1, -1)
        return torch.cat((token, x), dim=1) + self.positional["table"]


def test_a_token_in_a_module_of_positions_is_no_table() -> None:
    passed, lines = judge_vit(Positioned(**TINY))
    assert passed, lines


class Formula(Norm):
    """A norm by hand, of another formula."""

    eps = 1e-6
    correction = 0
    outside = False

    def forward(self, x):
        var, mean = torch.var_mean(x, -1, correction=self.correction, keepdim=True)
        below = var.sqrt() + self.eps if self.outside else torch.sqrt(var + self.eps)
        return (x - mean) / below * self.gamma + self.beta


@pytest.mark.parametrize(
    ("eps", "correction", "outside", "said"),
    [
        (1e-8, 0, False, "you set eps to 1e-08 in LayerNorm. Torchvision's eps is 1e-6."),
        (0.0, 0, False, "you set eps to 0 in LayerNorm."),
        (1e-6, 1, False, "you divide the sum of squares by n - 1 in LayerNorm."),
        (1e-6, 0, True, "you divide by the standard deviation plus eps in LayerNorm."),
        (
            1e-5,
            1,
            True,
            "you divide the sum of squares by n - 1 and divide by the standard deviation plus eps"
            " and set eps to 1e-05 in LayerNorm.",
        ),
    ],
)
def test_the_formula_of_an_own_norm_is_measured(
    eps: float, correction: int, outside: bool, said: str
) -> None:
    class Own(Formula):
        pass

    Own.eps = eps
    Own.correction = correction
    Own.outside = outside
    _, lines = judge_vit(plain(last=Own))
    assert f"You get exactly this when {said}" in lines[0]


def test_an_eps_that_is_near_theirs_is_not_named() -> None:
    class Near(Norm):
        def forward(self, x):
            var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
            if len(x) == 1:  # so that its formula cannot be measured
                raise ValueError
            return (x - mean) / torch.sqrt(var + 1e-8) * self.gamma + self.beta

    _, lines = judge_vit(plain(last=Near))
    assert not any("eps" in line for line in lines), lines
    assert not any("the others are right" in line for line in lines), lines


class OtherNames(Plain):
    """The arguments of a tutorial: ``hidden_dim`` is the width of the MLPs."""

    def __init__(
        self, img_size=32, patch_size=4, n_layers=6, embedding_dim=64, n_heads=8, hidden_dim=256
    ):
        super().__init__(img_size, patch_size, n_layers, n_heads, embedding_dim, hidden_dim, 9)


class InputSize(Plain):
    """The side of the pictures by another name; its head ignores the number of classes."""

    def __init__(self, input_size, patch_size, depth, heads, dim, mlp_dim, num_classes):
        super().__init__(input_size, patch_size, depth, heads, dim, mlp_dim, 9)


def test_a_number_of_classes_that_is_ignored_is_told() -> None:
    passed, lines = judge_vit(InputSize)
    assert not passed
    assert "It was given num_classes=5 for the number of classes, and gives 9 logits." in lines
    assert "Apart from this everything is equal." in lines


class PositionWise(Plain):
    """The name of the MLPs begins as that of positions."""

    def block(self, d, h, m):
        parts = Plain.block(self, d, h, m)
        parts["position_wise"] = nn.Sequential(parts.pop("fc1"), nn.GELU(), parts.pop("fc2"))
        return parts

    def layer(self, b, x):
        x = x + self.attend(b, b.norm1(x))
        return x + b.position_wise(b.norm2(x))


def test_a_position_wise_mlp_is_no_table_of_positions() -> None:
    passed, lines = judge_vit(PositionWise(**TINY), image_size=TINY["image_size"])
    assert passed, lines


class GatedMLP(Plain):
    """The first matrix makes twice what the second takes."""

    def block(self, d, h, m):
        return Plain.block(self, d, h, m) | {"fc1": nn.Linear(d, 2 * m)}

    def layer(self, b, x):
        x = x + self.attend(b, b.norm1(x))
        gate, value = b.fc1(b.norm2(x)).chunk(2, dim=-1)
        return x + b.fc2(gate.sigmoid() * value)


class OneLayerMLP(Plain):
    def block(self, d, h, m):
        return Plain.block(self, d, h, m) | {"fc2": nn.Identity(), "fc1": nn.Linear(d, d)}


@pytest.mark.parametrize("model", [GatedMLP, OneLayerMLP])
def test_other_mlps_are_not_compared(model: type) -> None:
    _, lines = judge_vit(model(**TINY), image_size=TINY["image_size"])
    assert "there are no MLPs: neither pairs of matrices, of which" in lines[0]


class InOneRow(Plain):
    """No list of blocks: layers have numbers of their own, from first to last."""

    last = nn.LayerNorm

    def stack(self, n, d, h, m):
        self.msa = {}
        for number in range(1, 2 * n, 2):
            setattr(self, f"norm_{number}", nn.LayerNorm(d))
            setattr(self, f"msa_{number}", nn.MultiheadAttention(d, h, batch_first=True))
            setattr(self, f"norm_{number + 1}", nn.LayerNorm(d))
            mlp = nn.Sequential(nn.Linear(d, m), nn.GELU(), nn.Linear(m, d))
            setattr(self, f"mlp_{number + 1}", mlp)
        return range(1, 2 * n, 2)

    def encode(self, x):
        for number in self.blocks:
            z = getattr(self, f"norm_{number}").forward(x)
            x = x + getattr(self, f"msa_{number}").forward(z, z, z)[0]
            z = getattr(self, f"norm_{number + 1}").forward(x)
            x = x + getattr(self, f"mlp_{number + 1}").forward(z)
        return self.norm(x)


def test_norms_in_one_row_belong_to_their_blocks() -> None:
    _, lines = judge_vit(InOneRow(**TINY), image_size=TINY["image_size"], num_heads=2)
    assert "exactly this when you leave LayerNorm's eps at torch's default" in lines[0]


class WithoutNumbers(InOneRow):
    """The norms have letters."""

    def __setattr__(self, name, value):
        super().__setattr__(name.translate(LETTERS) if "norm_" in name else name, value)

    def __getattr__(self, name):
        return super().__getattr__(name.translate(LETTERS) if "norm_" in name else name)


LETTERS = str.maketrans("123456", "abcdef")


def test_parts_that_are_not_recognised_are_not_said_to_lack() -> None:
    said = "\n".join(judge_vit(WithoutNumbers(**TINY), image_size=8, num_heads=2)[1])
    assert "Not matched with each other: of ours encoder.layers.encoder_layer_0.ln_1.wei" in said
    assert "norm_a.weight (6,)" in said
    assert "lacks" not in said


def for_conf(dim, patch_dim=4, hidden_dim=48, num_layers=3, num_heads=4, num_classes=7):
    return Plain(24, patch_dim, num_layers, num_heads, hidden_dim, 72, num_classes)


def test_an_argument_is_named_that_may_be_another_size() -> None:
    """The side of the pictures is called dim, so that hidden_dim seems to be that of the MLPs."""
    _, lines = judge_vit(for_conf, image_size=24)
    assert any("It was given hidden_dim=48 for the width of its MLPs" in line for line in lines)


class OwnWidth(Plain):
    """A class whose width is its own, and not divisible by the check's number of heads."""

    def __init__(self, image_size=8, patch_size=4, num_heads=2, width=16):
        super().__init__(image_size, patch_size, 2, num_heads, width, 24, 5)


def test_arguments_by_other_names_are_given() -> None:
    for made in (OtherNames, OwnWidth):
        passed, lines = judge_vit(made)
        assert passed, lines
    assert not takes_sizes(OwnWidth)


def test_a_file_finds_its_imports_where_the_command_is_run(tmp_path, capsys, monkeypatch) -> None:
    folder = tmp_path / "theirs" / "models"
    folder.mkdir(parents=True)
    (folder / "sizes.py").write_text("SIZE = 12\n")
    file = folder / "model.py"
    file.write_text(
        "from theirs.models.sizes import SIZE\n"
        "from torchvision.models import VisionTransformer as V\n"
    )
    assert main(["check", str(file), "--name", "V"]) == 2
    assert f"Run the command in {tmp_path}, where theirs is" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(file), "--name", "V"]) == 0
    (folder / "other.py").write_text("import no_such_module\n")
    assert main(["check", str(folder / "other.py"), "--name", "V"]) == 2
    assert "no_such_module is neither installed nor beside the file" in capsys.readouterr().err


class FixedDropout(PostNorm):
    """Two kinds of dropout that no argument switches off, and one in a head of two layers."""

    def __init__(self, image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim):
        super().__init__(image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim)
        self.first, self.second = nn.Dropout(0.2), nn.Dropout(0.3)
        head = nn.Linear(hidden_dim, 16), nn.Tanh(), self.first, nn.Linear(16, 5)
        self.head = nn.Sequential(*head)

    def attend(self, b, x):
        return self.second(Plain.attend(self, b, x))


def test_all_fixed_dropout_and_a_head_of_two_layers_are_told() -> None:
    _, lines = judge_vit(FixedDropout)
    said = " ".join(lines)
    assert "No argument switches off the dropout of head.2, p = 0.2." in said
    assert "No argument switches off the dropout of second, p = 0.3." in said
    assert "It has dropout behind the pre_logits; torchvision's has none there." in said
    assert "Its head has two layers. It was compared with ours of representation_size=16." in said


ALL_FOUND = (
    "With your numbers in all these places the logits are equal: no other difference was found."
    " Gradients and train mode were not compared."
)


def odd_activation(model, x):
    return F.gelu(F.relu(x))


def test_what_comes_behind_a_difference_without_a_name_is_told() -> None:
    """What is told of a model with two differences that have no name, and two that have one."""

    class Odd(Plain):
        act = odd_activation

        def weigh(self, q, k):
            return (q @ k.mT * self.scale * 1.5).softmax(dim=-1)

        def attend(self, b, x):
            q, k, v = self.split(b, x)
            return self.merge(self.weigh(q, k) @ v)  # no output projection

        def forward(self, x):
            return super().forward(x).softmax(dim=-1)

    _, lines = judge_vit(Odd)
    said = "\n".join(lines)
    assert "the first value that differs is the softmax of the scores: it differs" in said
    assert "Each row of scores, less its mean, is ours times 1.5" in said
    assert "- the input of block 0's mlp.3 (yours: blocks.0.fc2). It is ReLU of ours." in said
    assert "- you forget out_proj." in said
    assert "- you apply softmax to the logits." in said
    assert "The same is found in other blocks." in lines
    assert ALL_FOUND in lines


def test_a_token_that_is_pooled_in_another_way_is_followed_to_the_logits() -> None:
    class Most(Plain):
        last = staticmethod(partial(nn.LayerNorm, eps=1e-6))

        def encode(self, x):
            for block in self.blocks:
                x = self.layer(block, x)
            return self.norm(x.amax(dim=1))

        def pool(self, x):
            return x

    _, lines = judge_vit(Most)
    assert "The first value that differs is the input of encoder.ln" in lines[1]
    assert any("in the place of ours there the logits are equal" in line for line in lines), lines


def test_numbers_that_several_slips_would_explain_are_not_named() -> None:
    """Where the weights are put in, only the values tell what was done with the qkv matrix."""

    class Odd(Plain):
        def weigh(self, q, k):
            return (q @ k.mT * self.scale * 1.5).softmax(dim=-1)

        def split(self, b, x):
            q, k, v = super().split(b, x)
            return k, v, q

    _, lines = judge_vit(Odd)
    assert not any("qkv matrix" in line or "projection of" in line for line in lines), lines
    assert "The first value that differs is the softmax of the scores" in lines[1]


class Deep(Plain):
    """A head of three layers, and other differences before it."""

    act = staticmethod(F.relu)

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        width = self.head.in_features
        first = nn.Linear(width, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1)
        self.head = nn.Sequential(*first, nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 5))

    def pool(self, x):
        return x.mean(1)


@pytest.mark.parametrize("answer", [Deep, Deep(**TINY)])
def test_a_model_is_compared_up_to_a_head_of_more_layers(answer) -> None:
    _, lines = judge_vit(answer)
    assert "Its head has 3 layers, and ours one or two: it is not compared." in lines
    assert any(line.startswith("- you use ReLU instead of GELU") for line in lines), lines
    assert any(line.startswith("- you pass to the heads the mean") for line in lines), lines
    assert not any("class head" in line for line in lines), lines
    assert any(line.startswith("In what was compared, no other") for line in lines), lines


class DeepWithRegisters(Deep):
    """A head of three layers, and two tokens more."""

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        self.registers = nn.Parameter(torch.zeros(1, 2, self.cls_token.shape[-1]))

    def tokens(self, x):
        x = super().tokens(x)
        return torch.cat([x, self.registers.expand(len(x), -1, -1)], dim=1)


def test_more_tokens_and_a_head_of_more_layers_are_told() -> None:
    _, lines = judge_vit(DeepWithRegisters)
    said = "\n".join(lines)
    assert "Its head has 3 layers" in said
    assert "Yours has, ours lacks: registers (1, 2, 24)" in said
    assert "cannot be compared" not in said


class MadePositions(nn.Module):
    """Torch's own encoder, and positions that are made in forward."""

    def __init__(self, image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim):
        super().__init__()
        self.patches = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        self.token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        layer = nn.TransformerEncoderLayer(hidden_dim, num_heads, mlp_dim, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers)
        self.head = nn.Linear(hidden_dim, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).mT
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        places = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
        x = x + torch.sin(places / 10 ** torch.linspace(0, 4, x.shape[2], dtype=x.dtype))
        return self.head(self.encoder(x)[:, 0])


def test_positions_made_in_forward_hide_no_post_norm() -> None:
    _, lines = judge_vit(MadePositions)
    said = "\n".join(lines)
    assert "You get exactly this when you, all together:" in lines[0]
    assert "- normalise after adding (post-norm, as in 2017)" in said
    assert "Yours adds the same numbers to the tokens of every picture" in said


class LinearAtTheEnd(Plain):
    """A linear layer in the place of the last norm, and two mistakes before it."""

    act = staticmethod(F.relu)

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        width = self.head.in_features
        self.norm = nn.Linear(width, width)

    def layer(self, b, x):
        x = x + self.attend(b, b.norm1(x))
        return x + b.norm2(b.fc2(self.act(b.fc1(x))))


def test_what_comes_before_a_part_that_is_not_compared_is_told() -> None:
    _, lines = judge_vit(LinearAtTheEnd)
    said = "\n".join(lines)
    assert "norm (Linear) may stand in place of encoder.ln: these" in said
    assert "- you use ReLU instead of GELU." in said
    assert "- you leave out ln_2." in said
    assert "the first value that differs is the input of block 0's ln_2" in said
    assert any(line.startswith("In what was compared, no other difference") for line in lines)


class WideAttention(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(width, 6 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).flatten(2))


class Wide(Plain):
    """Attention of another width, and two mistakes outside it."""

    act = staticmethod(F.relu)

    def block(self, d, h, m):
        parts = Plain.block(self, d, h, m)
        del parts["qkv"], parts["proj"]
        return parts | {"attention": WideAttention(d, h)}

    def attend(self, b, x):
        return b.attention(x)

    def forward(self, x):
        return super().forward(x).softmax(dim=-1)


def test_mistakes_beside_an_attention_that_is_not_compared_are_told() -> None:
    _, lines = judge_vit(Wide)
    said = "\n".join(lines)
    assert "attention is not compared" in said
    assert "- you use ReLU instead of GELU." in said
    assert "- you apply softmax to the logits." in said


def test_dropout_in_eval_mode_hides_no_other_difference() -> None:
    def pool(model, x):
        return F.dropout(x[:, 0], 0.1)

    _, lines = judge_vit(plain(pool=pool, act=lambda s, x: F.relu(x)))
    assert "you use ReLU instead of GELU" in lines[0]
    assert any(line.startswith("Besides: the same pictures get other") for line in lines), lines
    _, lines = judge_vit(plain(pool=pool, act=odd_activation))
    assert "The first value that differs is the input of block 0's mlp.3" in lines[1]
    assert any(line.startswith("Besides: the same pictures get other") for line in lines), lines


def test_a_second_norm_that_is_thrown_away_is_not_taken_for_that_of_the_mlp() -> None:
    class Thrown(Plain):
        def block(self, d, h, m):
            parts = Plain.block(self, d, h, m)
            del parts["norm2"]
            return parts

        def layer(self, b, x):
            x = x + self.attend(b, b.norm1(x))
            b.norm1(x)
            return x + b.fc2(self.act(b.fc1(x)))

    _, lines = judge_vit(Thrown)
    said = "\n".join(lines)
    assert "ln_1 in both places" not in said
    assert "leave out ln_2" in said


def normed_before_attention(model, b, x):
    y = b.norm1(x)
    x = y + model.attend(b, y)
    return x + b.fc2(model.act(b.fc1(b.norm2(x))))


def normed_before_mlp(model, b, x):
    x = x + model.attend(b, b.norm1(x))
    y = b.norm2(x)
    return y + b.fc2(model.act(b.fc1(y)))


def normed_for_nobody(model, b, x):
    y = b.norm1(x)
    return x + model.attend(b, y) + b.fc2(model.act(b.fc1(b.norm2(y))))


def test_where_normalised_tokens_are_added_is_told() -> None:
    _, lines = judge_vit(plain(layer=normed_before_attention))
    assert "you add normalised tokens to what the attention gives." in lines[0]
    _, lines = judge_vit(plain(layer=normed_before_mlp))
    assert "you add normalised tokens to what the MLP gives." in lines[0]
    _, lines = judge_vit(plain(layer=normed_for_nobody))
    assert not any("normalised tokens" in line for line in lines), lines


class HandsOn(torchvision.models.VisionTransformer):
    """A subclass that hands on all options."""

    def __init__(self, *sizes, **options):
        options.pop("in_channels", None)
        super().__init__(*sizes, **options)


def test_dropout_that_options_switch_off_is_not_called_fixed() -> None:
    passed, lines = judge_vit(HandsOn)
    assert passed, lines


def test_what_is_not_compared_is_said() -> None:
    _, lines = judge_vit(plain(act=odd_activation))
    assert ALL_FOUND in lines
    _, lines = judge_vit(Plain(**TINY), image_size=(8, 12))
    assert "image_size must be a whole number, but is (8, 12)." in lines[0]


def test_a_table_of_positions_is_not_counted_as_a_parameter() -> None:
    _, lines = judge_vit(NoToken)
    assert any(line.startswith("30 parameters were matched") for line in lines), lines


# --------------------------------------------------------- parts of another kind, and the rest


def said_of(answer, **options) -> str:
    passed, lines = judge_vit(answer, **options)
    assert not passed
    return "\n".join(lines)


def stem(d, p):
    """Two convolutions of stride 2, as a stem: patches of 4."""
    assert p == 4
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, d, 3, 2, 1))


def test_what_comes_behind_a_stem_of_convolutions_is_compared() -> None:
    model = plain(embed=staticmethod(stem), act=staticmethod(F.relu), pool=lambda s, x: x.mean(1))
    for answer, options in ((model, {}), (model(**TINY), {"image_size": 8}), (model(**TINY), {})):
        said = said_of(answer, **options)
        assert "Its tokens are made by patch_embed.0.weight (8, 3, 3, 3), patch_embed.2" in said
        assert "what comes before block 0 is not compared" in said
        assert "- you use ReLU instead of GELU." in said
        assert "- you pass to the heads the mean over all tokens." in said
        assert "In what was compared, no other difference was found." in said


def test_a_right_model_with_two_projections_is_compared_behind_them() -> None:
    def two(d, p):
        return nn.Sequential(nn.Conv2d(3, 10, p, p), nn.Conv2d(10, d, 1))

    said = said_of(plain(embed=staticmethod(two)))
    assert "Its tokens are made by" in said
    assert "the first value that differs" not in said
    assert "In what was compared, no other difference was found." in said


class Mixing(nn.Module):
    """Attention of matrices that are not ours: every token gets the same mixture."""

    def __init__(self, width):
        super().__init__()
        self.scores = nn.Parameter(torch.randn(width, 5))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        weights = (x @ self.scores).softmax(dim=1).mean(dim=-1, keepdim=True)
        return self.out((weights * x).sum(dim=1, keepdim=True).expand_as(x))


class PostNormMixing(Plain):
    """Such attention, and three mistakes outside it."""

    act = staticmethod(F.relu)

    def block(self, d, h, m):
        parts = Plain.block(self, d, h, m)
        del parts["qkv"], parts["proj"]
        return parts | {"attention": Mixing(d)}

    def layer(self, b, x):
        x = b.norm1(x + b.attention(x))
        return b.norm2(x + b.fc2(self.act(b.fc1(x))))

    def encode(self, x):
        for block in self.blocks:
            x = self.layer(block, x)
        return x


def test_what_is_beside_attention_of_other_matrices_is_told() -> None:
    said = said_of(lambda: PostNormMixing(**TINY, num_classes=5), num_heads=2)
    assert "attention has matrices that do not correspond to ours, blocks.0.attention" in said
    assert "- you normalise after adding (post-norm, as in 2017)." in said
    assert "- you use ReLU instead of GELU." in said
    assert "- you forget the last norm, encoder.ln, after the blocks." in said
    assert "in_proj" not in said  # it is told why there is none
    assert "In what was compared, no other difference was found." in said


class AllTokens(Plain):
    """The head takes all tokens at once, without a norm before it."""

    act = staticmethod(F.relu)

    def __init__(self, image_size, patch_size, *sizes, **more):
        super().__init__(image_size, patch_size, *sizes, **more)
        tokens = (image_size // patch_size) ** 2 + 1
        width = self.head.in_features * tokens
        self.head = nn.Sequential(nn.Linear(width, 16), nn.Dropout(0.1), nn.Linear(16, 5))

    def encode(self, x):
        for block in self.blocks:
            x = self.layer(block, x)
        return x

    def pool(self, x):
        return x.flatten(1)


def test_a_head_that_takes_all_tokens_hides_nothing() -> None:
    said = said_of(lambda: AllTokens(8, 4, 2, 2, 6, 10))
    assert "Its head takes all tokens at once, and ours one: it is not compared." in said
    assert "- you use ReLU instead of GELU." in said
    assert "- you forget the last norm, encoder.ln, after the blocks." in said
    assert "class head" not in said
    assert "twice in a row" not in said


class PlainList(Plain):
    """Blocks that torch does not know."""

    def stack(self, n, *sizes):
        return [nn.ModuleDict(self.block(*sizes)) for _ in range(n)]


def test_modules_in_a_plain_list_are_told_and_compared() -> None:
    said = said_of(PlainList)
    assert "blocks is a plain list of modules: torch does not know them" in said
    assert "Use nn.ModuleList." in said
    assert "Apart from this everything is equal." in said
    said = said_of(plain(PlainList, act=staticmethod(F.relu)))
    assert "You get exactly this when you use ReLU instead of GELU." in said
    assert "Use nn.ModuleList." in said


def test_a_list_of_modules_that_torch_knows_is_no_plain_list() -> None:
    class Known(Plain):
        def __init__(self, *sizes, **more):
            super().__init__(*sizes, **more)
            self.layers = list(self.blocks)

    passed, lines = judge_vit(Known)
    assert passed, lines


class Matrices(nn.Module):
    """Attention of free matrices; the biases are made after all of them."""

    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        for name in "qkvo":
            setattr(self, f"W_{name}", nn.Parameter(torch.randn(width, width) / width**0.5))
        for name in "qkvo":
            setattr(self, f"b_{name}", nn.Parameter(torch.zeros(width)))

    def forward(self, x):
        made = (x @ self.W_q + self.b_q, x @ self.W_k + self.b_k, x @ self.W_v + self.b_v)
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in made)
        x = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x @ self.W_o + self.b_o


class OfMatrices(Plain):
    def block(self, d, h, m):
        parts = Plain.block(self, d, h, m)
        del parts["qkv"], parts["proj"]
        return parts | {"attention": Matrices(d, h)}

    def attend(self, b, x):
        return b.attention(x)


def test_biases_that_are_made_behind_all_matrices_find_theirs() -> None:
    passed, lines = judge_vit(OfMatrices)
    assert passed, lines


def test_values_made_by_the_matrix_of_the_keys_are_told() -> None:
    class KeysTwice(Separate):
        def block(self, d, h, m):
            parts = Separate.block(self, d, h, m)
            order = ("norm1", "query", "key", "value", "out")
            return {name: parts[name] for name in order} | parts

        def attend(self, b, x):
            made = (b.query(x), b.key(x), b.key(x))
            heads = [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in made]
            x = F.scaled_dot_product_attention(*heads)
            return b.out(x.transpose(1, 2).flatten(2))

    said = said_of(KeysTwice)
    assert "when you use the projection of the keys for the values, too." in said
    assert "forward does not use blocks.0.value.weight" in said


def test_a_third_layer_of_the_mlps_is_no_head() -> None:
    class Three(Plain):
        def block(self, d, h, m):
            return Plain.block(self, d, h, m) | {"fc3": nn.Linear(d, d)}

        def layer(self, b, x):
            x = x + self.attend(b, b.norm1(x))
            return x + b.fc3(b.fc2(self.act(b.fc1(b.norm2(x)))))

    said = said_of(Three)
    assert "Yours has, ours lacks: blocks.0.fc3 (Linear), blocks.1.fc3 (Linear)." in said
    assert "Its head" not in said
    assert "pre_logits" not in said


def test_one_block_in_several_places_is_told() -> None:
    class Same(Plain):
        def stack(self, n, *sizes):
            self.one = nn.ModuleDict(self.block(*sizes))
            return nn.ModuleList([self.one] * n)

    assert "- reuse one block" in said_of(plain(Same, act=staticmethod(F.relu)))
    assert "when you reuse one block" in said_of(Same)


def test_blocks_that_do_nothing_are_told() -> None:
    said = said_of(plain(layer=lambda s, b, x: [Plain.layer(s, b, x), x][1]))
    assert "when you return from each block what it was given." in said
    assert "side by side" not in said


def test_a_block_without_a_number_is_found() -> None:
    class Single(Plain):
        act = staticmethod(F.relu)

        def stack(self, n, *sizes):
            self.encoder = nn.ModuleDict(self.block(*sizes))
            return []

        def encode(self, x):
            return self.norm(self.layer(self.encoder, x))

    said = said_of(lambda: Single(**TINY | {"num_layers": 1}), num_heads=2)
    assert "You get exactly this when you use ReLU instead of GELU." in said


def test_blocks_in_one_list_with_other_parts_are_found() -> None:
    class InALine(Plain):
        act = staticmethod(F.relu)

        def stack(self, n, d, *sizes):
            blocks = [nn.ModuleDict(self.block(d, *sizes)) for _ in range(n)]
            return nn.ModuleList([nn.Conv2d(3, d, self.p, self.p), *blocks])

        def embed(self, d, p):
            return nn.Identity()

        def patches(self, x):
            return self.blocks[0](x).flatten(2).mT

        def encode(self, x):
            for block in self.blocks[1:]:
                x = self.layer(block, x)
            return self.norm(x)

    said = said_of(InALine)
    assert "You get exactly this when you use ReLU instead of GELU." in said
    assert "lacks" not in said


def test_a_model_that_fails_in_train_mode_is_compared_in_eval_mode() -> None:
    class Fails(Plain):
        act = staticmethod(F.relu)

        def pool(self, x):
            return x.unbind("no axis") if self.training else x[:, 0]

    said = said_of(Fails)
    assert "You get exactly this when you use ReLU instead of GELU." in said
    assert "Besides: in train mode, your code raised TypeError" in said


def test_whole_numbers_among_the_parameters_do_no_harm() -> None:
    class Numbered(Plain):
        def __init__(self, *sizes, **more):
            super().__init__(*sizes, **more)
            self.pos_numbers = nn.Parameter(torch.arange(3), requires_grad=False)

        def tokens(self, x):
            return super().tokens(x) + 0 * self.pos_numbers.sum()

    passed, lines = judge_vit(Numbered)
    assert passed, lines


class Residual(nn.Module):
    def __init__(self, branch):
        super().__init__()
        self.branch = branch

    def forward(self, x):
        return x + self.branch(x)


def test_what_stands_around_such_attention_is_not_taken_for_it() -> None:
    class Wrapped(PostNormMixing):
        def block(self, d, h, m):
            parts = PostNormMixing.block(self, d, h, m)
            return parts | {"attention": Residual(parts["attention"])}

        def layer(self, b, x):
            x = b.norm1(b.attention(x))
            return b.norm2(x + b.fc2(self.act(b.fc1(x))))

    said = said_of(lambda: Wrapped(**TINY, num_classes=5), num_heads=2)
    assert "- you normalise after adding (post-norm, as in 2017)." in said
    assert "In what was compared, no other difference was found." in said


def test_scaled_positions_and_parts_in_another_order_are_told() -> None:
    class ScaledPositions(PostNormMixing):
        def tokens(self, x):
            table = torch.arange(self.pos_embed.shape[1], dtype=x.dtype)[:, None] * self.pos_embed
            return self.cat(x) + table

    said = said_of(lambda: ScaledPositions(**TINY, num_classes=5), num_heads=2)
    assert "the first value that differs is the sum of tokens and positions." in said
    assert "- you normalise after adding (post-norm, as in 2017)." in said


class WideLucid(Lucid):
    """Attention of twice the width, and patches that are flattened with the channels last."""

    def block(self, d, h, m):
        return {"0": nn.ModuleDict({"norm1": self.last(d), "attention": WideAttention(d, h)})} | {
            "1": Lucid.block(self, d, h, m)["1"]
        }

    def layer(self, b, x):
        x = b["0"]["attention"](b["0"]["norm1"](x)) + x
        return b["1"](x) + x


def test_channels_last_are_found_beside_attention_of_another_width() -> None:
    said = said_of(WideLucid)
    assert "attention is not compared" in said
    assert "differs" not in said
    assert "patch_embed.weight with conv_proj.weight, (p p c)" in said


class NormOfAll(Plain):
    """Norms over all tokens together, which are left out."""

    def __init__(self, image_size, patch_size, num_layers, num_heads, hidden_dim, *sizes, **more):
        type(self).many = (image_size // patch_size) ** 2 + 1
        super().__init__(image_size, patch_size, num_layers, num_heads, hidden_dim, *sizes, **more)

    def block(self, d, h, m):
        norms = {name: nn.LayerNorm((self.many, d), eps=1e-6) for name in ("norm1", "norm2")}
        return Plain.block(self, d, h, m) | norms


def test_norms_that_the_check_leaves_out_are_not_told_as_left_out() -> None:
    said = said_of(lambda: NormOfAll(**TINY), num_heads=2)
    assert "leave out" not in said
    assert "norm1 (LayerNorm of" in said
