"""A faster forward pass with the same logits and gradients.

1. One matrix product computes queries, keys and values, used by ``F.scaled_dot_product_attention``
   without a copy.
2. The class head uses only the class token: the last block computes no other token
   (``_attend_once``).
3. In training, ``keep_patches`` skips most blank patches. A bias on the scores makes each kept
   blank patch count as much as all the blank patches that it stands for. Evaluation uses all
   patches.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .tokens import CLASS_TOKEN, PATCHES


class FastVisionTransformer(nn.Module):
    """Wraps a ``VisionTransformer`` and shares its parameters and state_dict: (n, c, h, w) -> (n,
    num_classes).

    Logits and gradients equal the model's within 1e-5 x max(1, largest logit), except in training
    with dropout, which draws other numbers, or with ``keep_patches``: the number of patches used of
    each image, those with ink first; None uses all.
    """

    def __init__(self, model: nn.Module, keep_patches: int | None = None) -> None:
        super().__init__()
        if keep_patches is not None and (
            not isinstance(keep_patches, int) or not 1 <= keep_patches < model.seq_length
        ):
            most = model.seq_length - 1
            raise ValueError(
                f"keep_patches must be a whole number from 1 to {most}, got {keep_patches}"
            )
        self.patch_size = model.patch_size
        self.pool = getattr(model, "pool", "token")
        self.keep_patches = keep_patches
        self._process_input = model._process_input
        self.class_token = model.class_token
        self.conv_proj = model.conv_proj
        self.encoder = model.encoder
        self.heads = model.heads

    def forward(self, images: Tensor) -> Tensor:
        encoder = self.encoder
        # (n, c, h, w) -> (n, n_h * n_w, hidden_dim)
        patches = self._process_input(images) + encoder.pos_embedding[:, PATCHES]
        bias = None
        if self.training and self.keep_patches is not None:
            patches, bias = self._choose_patches(images, patches)
        class_token = (self.class_token + encoder.pos_embedding[:, CLASS_TOKEN]).expand(
            len(patches), -1, -1
        )
        x = encoder.dropout(torch.cat([class_token, patches], dim=1))

        *blocks, last = encoder.layers
        for block in blocks:
            x = _apply_block(block, x, bias)
        if self.pool == "token":
            x = encoder.ln(_apply_block(last, x, bias, _attend_once)).squeeze(1)
        else:
            x = encoder.ln(_apply_block(last, x, bias))[:, PATCHES]
            x = (
                x.mean(dim=1)
                if bias is None
                else (bias[:, 0, 0, PATCHES, None].softmax(dim=1) * x).sum(dim=1)
            )
        return self.heads(x)

    def _choose_patches(self, images: Tensor, patches: Tensor) -> tuple[Tensor, Tensor]:
        """Choose patches with ink first, then random blank ones, in one random order for the whole
        batch.

        Returns the patches, (n, keep_patches, hidden_dim), and a bias for the score of each token,
        class token first, (n, 1, 1, 1 + keep_patches): the logarithm of how many patches of its
        kind, ink or blank, it stands for.
        """
        # (n, c, h, w) -> (n, n_h * n_w): a patch has ink if its largest and smallest pixels differ,
        # up to rounding
        p = self.patch_size
        spread = F.max_pool2d(images, p) + F.max_pool2d(-images, p)
        has_ink = (spread.amax(dim=1).flatten(1) > 1e-3).float()
        noise = torch.rand(patches.shape[1], device=patches.device)
        chosen = (has_ink + noise).topk(self.keep_patches, dim=1).indices  # type: ignore[arg-type]
        inked = has_ink.gather(1, chosen)
        ink, blank = (
            (kind.sum(1) / kept.sum(1)).log()
            for kind, kept in ((has_ink, inked), (1 - has_ink, 1 - inked))
        )
        bias = F.pad(torch.where(inked > 0, ink[:, None], blank[:, None]), (1, 0))
        return (
            patches.gather(1, chosen.unsqueeze(-1).expand(-1, -1, patches.shape[2])),
            bias[:, None, None],
        )


def speed_up(model: nn.Module, keep_patches: int | None = None) -> nn.Module:
    """Wrap an unchanged Vision Transformer of this package or torchvision; return any other model
    as it is.

    Unchanged: no other class in the encoder, no other forward or form of attention, no hooks.
    Raises ValueError if ``keep_patches`` is given for another model.
    """
    known = type(model).__name__ == "VisionTransformer" and all(
        _is_known(module) for module in model.modules()
    )
    if known and all(type(block).__name__ == "EncoderBlock" for block in model.encoder.layers):
        return FastVisionTransformer(model, keep_patches)
    if keep_patches is not None:
        raise ValueError(
            "keep_patches works with the unchanged VisionTransformer of mnist_vit or torchvision"
            " only"
        )
    return model


def _is_known(module: nn.Module) -> bool:
    original = type(module).__module__.startswith(
        ("torch.nn.", "mnist_vit.model", "torchvision.models.vision_transf")
    )
    usual = (
        getattr(module, "batch_first", True)
        and getattr(module, "in_proj_bias", "none needed") is not None
    )
    usual = (
        usual
        and getattr(module, "bias_k", None) is None
        and not getattr(module, "add_zero_attn", False)
    )
    return (
        original
        and usual
        and not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
    )


def _attend(attention: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
    """Self-attention with packed projections; ``bias`` is added to the scores: (n, s, width) -> the
    same."""
    n, s, width = x.shape
    heads = attention.num_heads
    # (n, s, 3 * width) -> three times (n, heads, s, head_dim), all of them views
    qkv = F.linear(x, attention.in_proj_weight, attention.in_proj_bias).view(
        n, s, 3, heads, width // heads
    )
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    dropout = attention.dropout if attention.training else 0.0
    x = F.scaled_dot_product_attention(q, k, v, bias, dropout)
    # (n, heads, s, head_dim) -> (n, s, width)
    return attention.out_proj(x.transpose(1, 2).flatten(2))


def _attend_once(attention: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
    """Self-attention with the class token as the only query: (n, s, width) -> (n, 1, width).

    A score is q . (W_k x + b_k) = (W_k^T q) . x + q . b_k; softmax cancels the last term, equal for
    all tokens. The output of a head is, with weights a_j, the sum of a_j (W_v x_j + b_v) over the
    tokens j: W_v (sum of a_j x_j) + (sum of a_j) b_v. The a_j sum to 1, except with dropout.
    """
    width, heads = x.shape[2], attention.num_heads
    w_q, w_k, w_v = attention.in_proj_weight.view(3, heads, width // heads, width)
    b_q, _, b_v = attention.in_proj_bias.view(3, heads, width // heads)
    q = torch.einsum("nw,hdw->nhd", x[:, CLASS_TOKEN], w_q) + b_q
    looked_for = torch.einsum("nhd,hdw->nhw", q, w_k) / math.sqrt(width // heads)
    scores = looked_for @ x.transpose(1, 2)  # (n, heads, s)
    weights = (scores if bias is None else scores + bias[:, 0]).softmax(dim=-1)
    weights = F.dropout(weights, attention.dropout, attention.training)
    found = weights @ x  # (n, heads, width)
    values = torch.einsum("nhw,hdw->nhd", found, w_v) + weights.sum(dim=-1, keepdim=True) * b_v
    return attention.out_proj(values.flatten(1)).unsqueeze(1)


def _apply_block(
    block: nn.Module, x: Tensor, bias: Tensor | None, attend: Callable[..., Tensor] = _attend
) -> Tensor:
    """An encoder block for the query tokens: (n, s, hidden_dim) -> (n, s or 1, hidden_dim)."""
    y = attend(block.self_attention, block.ln_1(x), bias)
    x = x[:, : y.shape[1]] + block.dropout(y)
    return x + block.mlp(block.ln_2(x))
