"""A faster forward pass with the same logits and gradients.

1. One matrix product computes queries, keys and values, used by ``F.scaled_dot_product_attention``
   without a copy.
2. The class head uses only the class token: the last block computes no other token
   (``_attend_once``).
3. In training, ``keep_patches`` skips most blank patches, before they are projected. A bias on the
   scores makes each kept blank patch count as much as all the blank patches that it stands for.
   Evaluation uses all patches.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .tokens import CLASS_TOKEN

INK = 1e-3  # a patch has ink if its pixels differ by more than this, which is more than rounding


class FastVisionTransformer(nn.Module):
    """Wraps a ``VisionTransformer``, with the same parameters and state_dict.

    Logits and gradients equal the model's within 1e-5 x max(1, largest logit), except in training
    with dropout, which draws other numbers, or with ``keep_patches``.

    Args:
        model: the ``VisionTransformer`` of this package or of torchvision.
        keep_patches: how many patches of each image are used in training, those with ink first;
            None uses all.

    Shape: (n, c, h, w) -> (n, num_classes).
    """

    def __init__(self, model: nn.Module, keep_patches: int | None = None) -> None:
        super().__init__()
        self.patch_size = model.patch_size
        self.num_patches = (model.image_size // model.patch_size) ** 2
        if keep_patches is not None:
            _check_keep_patches(keep_patches, self.num_patches)
        self.keep_patches = keep_patches
        self.pool = getattr(model, "pool", "token")
        # torchvision's class has no such method.
        self._to_tokens = getattr(model, "_to_tokens", partial(_torchvisions_tokens, model))
        # All that the model owns, by its name, so that parameters() and state_dict() are the same
        for name, parameter in model.named_parameters(recurse=False):
            setattr(self, name, parameter)
        for name, child in model.named_children():
            setattr(self, name, child)

    def forward(self, images: Tensor) -> Tensor:
        if self.training and self.keep_patches is not None:
            x, bias = self._embed_some(images)
        else:
            x, bias = self._to_tokens(images) + self.encoder.pos_embedding, None
        x = self.encoder.dropout(x)
        *blocks, last = self.encoder.layers
        for block in blocks:
            x = _apply_block(block, x, bias)
        if self.pool == "token":
            x = self.encoder.ln(_apply_block(last, x, bias, _attend_once)).squeeze(1)
        else:
            x = self.encoder.ln(_apply_block(last, x, bias))
            x = self._mean_over_patches(x, bias)
        return self.heads(x)

    def _embed_some(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens with positions, ``keep_patches`` of them patches; the others are not projected.

        The tokens before the patches are the same for every image, so that one image tells them.
        Returns (n, tokens, hidden_dim), and a bias for the score of each token, (n, 1, 1, tokens).
        """
        p = self.patch_size
        # (n, c, h, w) -> (n, c, n_h, p, n_w, p) -> (n, patches, c * p * p)
        pixels = images.unflatten(3, (-1, p)).unflatten(2, (-1, p))
        pixels = pixels.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        chosen, bias = self._choose_patches(pixels)
        pixels = pixels.gather(1, chosen.unsqueeze(-1).expand(-1, -1, pixels.shape[2]))
        patches = F.linear(pixels, self.conv_proj.weight.flatten(1), self.conv_proj.bias)

        first = self._to_tokens(images[:1])[:, : -self.num_patches]
        before = first.shape[1]
        first_positions, positions = self.encoder.pos_embedding.tensor_split([before], dim=1)
        first = (first + first_positions).expand(len(images), -1, -1)
        patches = patches + F.embedding(chosen, positions.squeeze(0))
        return torch.cat([first, patches], dim=1), F.pad(bias, (before, 0))[:, None, None]

    def _mean_over_patches(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """(n, s, hidden_dim) -> (n, hidden_dim); a kept patch counts as often as its bias says."""
        if bias is None or self.keep_patches is None:
            return x[:, -self.num_patches :].mean(dim=1)
        x = x[:, -self.keep_patches :]
        share = bias[:, 0, 0, -self.keep_patches :, None].softmax(dim=1)
        return (share * x).sum(dim=1)

    def _choose_patches(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Choose patches with ink first, then random blank ones: (n, patches, c * p * p).

        The random order is one for the whole batch. Returns their indices and a bias for the score
        of each, both (n, keep_patches): the logarithm of how many patches of its kind, ink or
        blank, it stands for.
        """
        has_ink = self._find_ink(pixels)
        noise = torch.rand(self.num_patches, device=pixels.device)
        chosen = (has_ink + noise).topk(self.keep_patches, dim=1).indices  # type: ignore[arg-type]
        inked = has_ink.gather(1, chosen)

        ink_bias = (has_ink.sum(1) / inked.sum(1)).log()
        blank_bias = ((1 - has_ink).sum(1) / (1 - inked).sum(1)).log()
        return chosen, torch.where(inked > 0, ink_bias[:, None], blank_bias[:, None])

    def _find_ink(self, pixels: Tensor) -> Tensor:
        """1 for each patch whose pixels differ, else 0: (n, patches, c * p * p) -> (n, patches)."""
        colours = pixels.unflatten(2, (-1, self.patch_size**2))
        spread = colours.amax(dim=3) - colours.amin(dim=3)
        return (spread.amax(dim=2) > INK).float()


def speed_up(model: nn.Module, keep_patches: int | None = None) -> nn.Module:
    """Wrap an unchanged Vision Transformer; return any other model as it is.

    Unchanged: the class of this package or of torchvision, no other class in the encoder, no other
    forward or form of attention, no hooks. Raises ValueError if ``keep_patches`` is given for
    another model.
    """
    if _is_unchanged(model):
        return FastVisionTransformer(model, keep_patches)
    if keep_patches is not None:
        raise ValueError(
            "keep_patches works with the unchanged VisionTransformer of mnist_vit or torchvision"
            " only"
        )
    return model


def _check_keep_patches(keep_patches: int, most: int) -> None:
    if not isinstance(keep_patches, int) or not 1 <= keep_patches <= most:
        raise ValueError(
            f"keep_patches must be a whole number from 1 to {most}, got {keep_patches}"
        )


def _is_unchanged(model: nn.Module) -> bool:
    if type(model).__name__ != "VisionTransformer":
        return False
    if not all(_is_known(module) for module in model.modules()):
        return False
    if not _cuts_patches(model.conv_proj, model.patch_size):
        return False
    return all(type(block).__name__ == "EncoderBlock" for block in model.encoder.layers)


def _cuts_patches(projection: nn.Conv2d, patch_size: int) -> bool:
    """Whether a convolution applies one linear layer to every patch."""
    sides = (patch_size, patch_size)
    weight = projection.weight
    is_linear = weight.shape[1] == projection.in_channels and projection.bias is not None
    takes_each = projection.stride == sides and weight.shape[2:] == sides
    return is_linear and takes_each and projection.padding in ((0, 0), "valid")


def _is_known(module: nn.Module) -> bool:
    """Whether ``FastVisionTransformer`` computes the same as this part of a model."""
    homes = ("torch.nn.", "mnist_vit.model", "torchvision.models.vision_transf")
    if not type(module).__module__.startswith(homes):
        return False
    if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
        return False
    if isinstance(module, nn.MultiheadAttention):
        has_biases = module.in_proj_bias is not None and module.bias_k is None
        return module.batch_first and has_biases and not module.add_zero_attn
    return True


def _torchvisions_tokens(model: nn.Module, images: Tensor) -> Tensor:
    """What ``_to_tokens`` of our class returns: (n, c, h, w) -> (n, seq_length, hidden_dim)."""
    patches = model._process_input(images)
    class_token = model.class_token.expand(len(patches), -1, -1)
    return torch.cat([class_token, patches], dim=1)


def _attend(attention: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
    """Self-attention with packed projections: (n, s, width) -> the same.

    ``bias`` is added to the scores.
    """
    n, s, width = x.shape
    heads = attention.num_heads
    # (n, s, 3 * width) -> three times (n, heads, s, head_dim), all of them views
    qkv = F.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    q, k, v = qkv.view(n, s, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
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
    # (n, heads, width) @ (n, width, s) -> (n, heads, s)
    scores = looked_for @ x.transpose(1, 2)
    if bias is not None:
        scores = scores + bias[:, 0]
    weights = F.dropout(scores.softmax(dim=-1), attention.dropout, attention.training)
    # (n, heads, s) @ (n, s, width) -> (n, heads, width)
    found = weights @ x
    values = torch.einsum("nhw,hdw->nhd", found, w_v) + weights.sum(dim=-1, keepdim=True) * b_v
    return attention.out_proj(values.flatten(1)).unsqueeze(1)


def _apply_block(
    block: nn.Module, x: Tensor, bias: Tensor | None, attend: Callable[..., Tensor] = _attend
) -> Tensor:
    """An encoder block for the query tokens: (n, s, hidden_dim) -> (n, s or 1, hidden_dim)."""
    y = attend(block.self_attention, block.ln_1(x), bias)
    x = x[:, : y.shape[1]] + block.dropout(y)
    return x + block.mlp(block.ln_2(x))
