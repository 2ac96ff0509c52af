"""The Vision Transformer, from the smallest part to the whole; it is torchvision's, bit for bit.

In the arrow comments:
    n images, c channels, h and w pixels
    n_h and n_w patches in a column and in a row
    seq_length = 1 + n_h * n_w tokens, the class token first
    hidden_dim numbers a token, head_dim = hidden_dim / num_heads

Papers: "Attention Is All You Need" (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762) and "An
Image is Worth 16x16 Words" (Dosovitskiy et al. 2020, https://arxiv.org/abs/2010.11929).
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .errors import check_heads, check_sizes
from .tokens import CLASS_TOKEN

__all__ = [
    "MLP",
    "Encoder",
    "EncoderBlock",
    "MLPBlock",
    "MultiHeadAttention",
    "VisionTransformer",
    "vit_mnist",
]


class MLP(nn.Sequential):
    """Linear layers with an activation between them, applied to the last axis only.

    ``hidden_channels`` are the widths after each linear layer; all but the last are followed by
    ``norm_layer`` (None leaves it out) and ``activation_layer``, and all by dropout.

    Shape: (..., in_channels) -> (..., hidden_channels[-1]). Source: ``torchvision.ops.MLP``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: list[int],
        norm_layer: Callable[..., nn.Module] | None = None,
        activation_layer: Callable[..., nn.Module] = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        if len(hidden_channels) == 0:
            raise ValueError(
                "hidden_channels must name the width of at least one linear layer,"
                " got an empty list"
            )
        check_sizes(in_channels=in_channels)
        for i, width in enumerate(hidden_channels):
            check_sizes(**{f"hidden_channels[{i}]": width})
        options = {} if inplace is None else {"inplace": inplace}
        widths = [in_channels, *hidden_channels]

        layers: list[nn.Module] = []
        for i, (width_in, width_out) in enumerate(pairwise(widths)):
            layers.append(nn.Linear(width_in, width_out, bias=bias))
            is_last = i == len(hidden_channels) - 1
            if not is_last:
                if norm_layer is not None:
                    layers.append(norm_layer(width_out))
                layers.append(activation_layer(**options))
            layers.append(nn.Dropout(dropout, **options))
        super().__init__(*layers)


class MLPBlock(MLP):
    """The MLP of an encoder block: widen, GELU, narrow. Every token goes through it alone.

    Shape: (..., in_dim) -> (..., in_dim), with mlp_dim numbers a token in between.
    Source: Vaswani et al. 2017, section 3.3; the exact GELU of Hendrycks & Gimpel 2016,
    https://arxiv.org/abs/1606.08415.
    """

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, dropout=dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.normal_(module.bias, std=1e-6)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any
    ) -> None:
        # Files from before torchvision 0.13 have other names, its ImageNet weights among them.
        if (local_metadata.get("version") or 1) < 2:
            for old, new in (("linear_1", "0"), ("linear_2", "3")):
                for kind in ("weight", "bias"):
                    old_key = f"{prefix}{old}.{kind}"
                    if old_key in state_dict:
                        state_dict[f"{prefix}{new}.{kind}"] = state_dict.pop(old_key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


class MultiHeadAttention(nn.Module):
    """Multi-head attention from scratch. It does not know where in the picture a token comes from.

    Replaces ``nn.MultiheadAttention(embed_dim, num_heads, dropout, batch_first=True)`` in a model:
    the parameters have the same names, shapes and start values. The heads share ``embed_dim``
    equally; ``dropout`` is the probability with which an attention weight is set to zero while
    training.

    Source: Vaswani et al. 2017, section 3.2, equation 1.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads("embed_dim", embed_dim, num_heads)
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout

        # One matrix makes queries, keys and values of all heads: the rows of W_q, W_k, W_v.
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.in_proj_bias)
        nn.init.zeros_(self.out_proj.bias)

    def _split_heads(self, x: Tensor) -> Tensor:
        # (n, seq_length, embed_dim) -> (n, seq_length, num_heads, head_dim)
        #     -> (n, num_heads, seq_length, head_dim)
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = True,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Let every query token gather from the value tokens.

        ``query``, ``key`` and ``value`` are (n, seq_length, embed_dim), in a Vision Transformer the
        same tensor.

        Returns the layer's output, (n, seq_length, embed_dim), and with ``need_weights`` the
        attention weights (else None): their mean over the heads, (n, seq_length, seq_length), or
        with ``average_attn_weights=False`` each head's own, (n, num_heads, seq_length, seq_length).
        Without dropout, each row of a head's weights sums to 1.
        """
        for name, x in (("query", query), ("key", key), ("value", value)):
            torch._assert(x.dim() == 3, f"{name} must be (n, seq_length, embed_dim), got {x.shape}")
            torch._assert(
                x.shape[2] == self.embed_dim,
                f"{name} must be {self.embed_dim} wide, got {x.shape[2]}",
            )
        w_q, w_k, w_v = self.in_proj_weight.chunk(3)
        b_q, b_k, b_v = self.in_proj_bias.chunk(3)
        q = self._split_heads(F.linear(query, w_q, b_q))
        k = self._split_heads(F.linear(key, w_k, b_k))
        v = self._split_heads(F.linear(value, w_v, b_v))

        # (n, num_heads, seq_length, head_dim) @ (n, num_heads, head_dim, seq_length)
        #     -> (n, num_heads, seq_length, seq_length)
        scores = (q / math.sqrt(self.head_dim)) @ k.transpose(-2, -1)
        weights = scores.softmax(dim=-1)
        weights = F.dropout(weights, self.dropout, self.training)

        # (n, num_heads, seq_length, head_dim) -> (n, seq_length, num_heads, head_dim)
        x = (weights @ v).transpose(1, 2)
        # (n, seq_length, num_heads, head_dim) -> (n, seq_length, embed_dim)
        x = self.out_proj(x.reshape(query.shape))
        if not need_weights:
            return x, None
        if average_attn_weights:
            weights = weights.mean(dim=1)
        return x, weights


class EncoderBlock(nn.Module):
    """Attention, then the MLP, each with a norm before it (pre-norm) and a residual connection.

    ``dropout`` and ``attention_dropout`` are probabilities. ``norm_layer(width)`` returns a norm.

    Shape: (n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim).
    Source: Dosovitskiy et al. 2020, equations 2 and 3.
    """

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module] = partial(nn.LayerNorm, eps=1e-6),
    ) -> None:
        super().__init__()
        check_heads("hidden_dim", hidden_dim, num_heads)
        self.num_heads = num_heads

        # Attention: tokens talk to each other
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(
            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)

        # MLP: each token thinks for itself
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        torch._assert(
            input.dim() == 3, f"input must be (n, seq_length, hidden_dim), got {input.shape}"
        )
        # z' = MSA(LN(z)) + z
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x)
        x = x + input

        # z = MLP(LN(z')) + z'
        y = self.ln_2(x)
        y = self.mlp(y)
        return x + y


class Encoder(nn.Module):
    """Adds the position embedding, then applies the encoder blocks and a last normalisation.

    It does not know pictures: it takes any ``seq_length`` tokens, the class token included.

    Shape: (n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim).
    Source: Dosovitskiy et al. 2020, equations 1 to 4. The standard deviation 0.02 of the position
    embedding follows BERT.
    """

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module] = partial(nn.LayerNorm, eps=1e-6),
    ) -> None:
        super().__init__()
        check_sizes(
            seq_length=seq_length, num_layers=num_layers, hidden_dim=hidden_dim, mlp_dim=mlp_dim
        )
        self.pos_embedding = nn.Parameter(torch.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i in range(num_layers):
            layers[f"encoder_layer_{i}"] = EncoderBlock(
                num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
            )
        self.layers = nn.Sequential(layers)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        torch._assert(
            input.dim() == 3, f"input must be (n, seq_length, hidden_dim), got {input.shape}"
        )
        # (n, seq_length, hidden_dim) + (1, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)
        input = input + self.pos_embedding
        return self.ln(self.layers(self.dropout(input)))


class VisionTransformer(nn.Module):
    """Cuts an image into patches, encodes them as a sequence, and returns one logit per class.

    Args:
        image_size, patch_size: height and width in pixels; patch_size must divide image_size.
        num_layers: number of encoder blocks.
        num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer: of each block.
        num_classes: number of logits.
        representation_size: width of a tanh layer before the last linear layer; None leaves it out.
        in_channels: number of colour channels.
        print_shapes: whether forward prints the shape after each of its stages.
        pool: input of the class head: "token", the class token, as in the paper, or "mean", the
            mean over patches.

    Shape: (n, in_channels, image_size, image_size) -> (n, num_classes).
    Raises ValueError for sizes that make no sense; in forward, AssertionError for pictures that do
    not fit.
    Source: Dosovitskiy et al. 2020; ``torchvision.models.VisionTransformer``, equal bit for bit.
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Callable[..., nn.Module] = partial(nn.LayerNorm, eps=1e-6),
        *,
        in_channels: int = 3,
        print_shapes: bool = False,
        pool: str = "token",
    ) -> None:
        super().__init__()
        check_sizes(
            image_size=image_size,
            patch_size=patch_size,
            hidden_dim=hidden_dim,
            in_channels=in_channels,
            num_classes=num_classes,
        )
        if representation_size is not None:
            check_sizes(representation_size=representation_size)
        if image_size % patch_size != 0:
            raise ValueError(
                f"image_size {image_size} must be a multiple of patch_size,"
                f" got patches of {patch_size}"
            )
        if pool not in ("token", "mean"):
            raise ValueError(f'pool must be "token" or "mean", got {pool!r}')
        self.image_size = image_size
        self.patch_size = patch_size
        self.hidden_dim = hidden_dim
        self.mlp_dim = mlp_dim
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.num_classes = num_classes
        self.representation_size = representation_size
        self.norm_layer = norm_layer
        self.in_channels = in_channels
        self.print_shapes = print_shapes
        self.pool = pool

        # A convolution whose stride equals its kernel size applies one linear layer to every patch.
        self.conv_proj = nn.Conv2d(
            in_channels, hidden_dim, kernel_size=patch_size, stride=patch_size
        )
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        self.num_patches = (image_size // patch_size) ** 2
        self.seq_length = 1 + self.num_patches
        self.encoder = Encoder(
            self.seq_length,
            num_layers,
            num_heads,
            hidden_dim,
            mlp_dim,
            dropout,
            attention_dropout,
            norm_layer,
        )
        heads: OrderedDict[str, nn.Module] = OrderedDict()
        if representation_size is None:
            heads["head"] = nn.Linear(hidden_dim, num_classes)
        else:
            heads["pre_logits"] = nn.Linear(hidden_dim, representation_size)
            heads["act"] = nn.Tanh()
            heads["head"] = nn.Linear(representation_size, num_classes)
        self.heads = nn.Sequential(heads)

        # The start values. The class head begins at zero: at first all classes are equally likely.
        fan_in = in_channels * patch_size * patch_size
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / fan_in))
        nn.init.zeros_(self.conv_proj.bias)
        if representation_size is not None:
            nn.init.trunc_normal_(self.heads.pre_logits.weight, std=math.sqrt(1 / hidden_dim))
            nn.init.zeros_(self.heads.pre_logits.bias)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def _print_shape(self, label: str, shape: torch.Size | int) -> None:
        if self.print_shapes:
            print(f"{label}: {shape}")

    def _process_input(self, x: Tensor) -> Tensor:
        torch._assert(x.dim() == 4, f"images must be (n, c, h, w), got {x.shape}")
        n, c, h, w = x.shape
        p, size = self.patch_size, self.image_size
        torch._assert(
            c == self.in_channels, f"images must have {self.in_channels} channels, got {c}"
        )
        torch._assert(h == size, f"images must be {size} pixels high, got {h}")
        torch._assert(w == size, f"images must be {size} pixels wide, got {w}")
        torch._assert(
            x.is_floating_point(), f"images must be floating-point numbers, got {x.dtype}"
        )
        n_h, n_w = h // p, w // p

        # (n, c, h, w) -> (n, hidden_dim, n_h, n_w)
        x = self.conv_proj(x)
        self._print_shape("After Projection", x.shape)
        # (n, hidden_dim, n_h, n_w) -> (n, hidden_dim, n_h * n_w)
        x = x.reshape(n, self.hidden_dim, n_h * n_w)
        self._print_shape("After Reshape", x.shape)
        # (n, hidden_dim, n_h * n_w) -> (n, n_h * n_w, hidden_dim)
        x = x.permute(0, 2, 1)
        self._print_shape("After Permute", x.shape)
        return x

    def _to_tokens(self, x: Tensor) -> Tensor:
        """The sequence that the encoder takes: the class token, then the patches.

        The patches come last, whatever stands before them; the encoder adds a position to each
        token. Shape: (n, c, h, w) -> (n, seq_length, hidden_dim).
        """
        # (n, c, h, w) -> (n, n_h * n_w, hidden_dim)
        x = self._process_input(x)
        n = x.shape[0]
        self._print_shape("Batch Size", n)

        # (1, 1, hidden_dim) -> (n, 1, hidden_dim)
        batch_class_token = self.class_token.expand(n, -1, -1)
        self._print_shape("Batch Class Token", batch_class_token.shape)
        # (n, 1, hidden_dim) and (n, n_h * n_w, hidden_dim) -> (n, seq_length, hidden_dim)
        x = torch.cat([batch_class_token, x], dim=1)
        self._print_shape("Encoder Input", x.shape)
        return x

    def forward(self, x: Tensor) -> Tensor:
        self._print_shape("Input", x.shape)
        # (n, c, h, w) -> (n, seq_length, hidden_dim)
        x = self._to_tokens(x)
        x = self.encoder(x)
        self._print_shape("Encoder Output", x.shape)

        # (n, seq_length, hidden_dim) -> (n, hidden_dim)
        if self.pool == "token":
            x = x[:, CLASS_TOKEN]
            self._print_shape("Only Batch Class Token", x.shape)
        else:
            x = x[:, -self.num_patches :].mean(dim=1)
            self._print_shape("Mean Over Patches", x.shape)

        # (n, hidden_dim) -> (n, num_classes)
        x = self.heads(x)
        self._print_shape("Output", x.shape)
        return x

    def get_attention_output(self, x: Tensor, layer: int, head: int) -> Tensor:
        """The output of one head, A_h V_h, before the output projection mixes the heads.

        ``x`` are pictures; ``layer`` and ``head`` count from 0 (IndexError if there is none).
        Returns (n, seq_length, head_dim). After the projection, no slice of the layer's output
        belongs to a single head. Dropout is not applied in this layer; call ``eval()`` to disable
        it in earlier ones too.
        """
        num_layers = len(self.encoder.layers)
        num_heads = self.encoder.layers[0].num_heads
        if not 0 <= layer < num_layers:
            raise IndexError(f"layer must be 0 to {num_layers - 1}, got {layer}")
        if not 0 <= head < num_heads:
            raise IndexError(f"head must be 0 to {num_heads - 1}, got {head}")

        # The encoder, up to the input of the attention in this layer
        x = self._to_tokens(x) + self.encoder.pos_embedding
        x = self.encoder.dropout(x)
        x = self.encoder.layers[:layer](x)
        x = self.encoder.layers[layer].ln_1(x)

        # With this head's rows of W_q, W_k and W_v:
        # (n, seq_length, hidden_dim) -> (n, seq_length, head_dim)
        attention = self.encoder.layers[layer].self_attention
        w_q, w_k, w_v = attention.in_proj_weight.chunk(3)
        b_q, b_k, b_v = attention.in_proj_bias.chunk(3)
        head_dim = self.hidden_dim // num_heads
        rows = slice(head * head_dim, (head + 1) * head_dim)
        q = F.linear(x, w_q[rows], b_q[rows])
        k = F.linear(x, w_k[rows], b_k[rows])
        v = F.linear(x, w_v[rows], b_v[rows])
        return F.scaled_dot_product_attention(q, k, v)


def vit_mnist(patch_size: int = 2, **options: Any) -> VisionTransformer:
    """The course's model for 28x28 grey digits.

    It has 115,498 parameters with patches of 2 pixels; patches of 4, 7 and 14 pixels fit too.
    """
    return VisionTransformer(
        image_size=28,
        patch_size=patch_size,
        num_layers=2,
        num_heads=2,
        hidden_dim=64,
        mlp_dim=256,
        num_classes=10,
        representation_size=32,
        in_channels=1,
        **options,
    )
