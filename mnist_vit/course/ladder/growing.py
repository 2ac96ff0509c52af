"""The rows of the table that grows from notebook 00 to 06: a model with and without each piece.

The learner writes the models, and ``train`` trains them; the ones here are the same, made of the
package's classes, for the stored results. A row's twin is the model without the row's piece.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ...model import Encoder, EncoderBlock, MLPBlock, MultiHeadAttention, VisionTransformer
from .loop import Row
from .models import PATCH, WIDTH, BrokenHead, LinearInTheMiddle, OneHead, on_pixels, to_patches

MLP_DIM = 4 * WIDTH
HEADS = 2
DEEP = 4  # epochs of the models with six blocks
RELATION = 600  # steps
RELATION_WHOLE = 1200  # steps of the whole model: in 600, three of five seeds are not there yet


class Classifier(nn.Module):
    """Patches, tokens, what stands between, their mean, logits: notebooks 00 to 05.

    ``between`` are layers from tokens to tokens; attention layers return a pair.

    Shape: (n, 1, 28, 28) -> (n, 10).
    """

    def __init__(self, *between: nn.Module) -> None:
        super().__init__()
        self.to_tokens = nn.Linear(PATCH * PATCH, WIDTH)
        self.between = nn.ModuleList(between)
        self.to_logits = nn.Linear(WIDTH, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.to_tokens(to_patches(images))
        for layer in self.between:
            x = through(layer, x)
        return self.to_logits(x.mean(dim=1))


class Finder(nn.Module):
    """Notebook 02's model for the relational task: is the first patch there again?

    ``look`` is an attention layer, or None; what it fetches is added to the tokens. The answer is
    made of the first token, or of the "mean".

    Shape: (n, 1, 21, 21) -> (n, 2).
    """

    def __init__(self, look: nn.Module | None, pool: str = "first") -> None:
        super().__init__()
        self.to_tokens = nn.Linear(PATCH * PATCH, WIDTH)
        self.places = nn.Parameter(torch.randn(1, 9, WIDTH) / 2)
        self.look = look
        self.mlp = mlp()
        self.to_logits = nn.Linear(WIDTH, 2)
        self.pool = pool

    def forward(self, images: Tensor) -> Tensor:
        x = self.to_tokens(to_patches(images)) + self.places
        if self.look is not None:
            x = x + through(self.look, x)
        x = self.mlp(x)
        return self.to_logits(x.mean(dim=1) if self.pool == "mean" else x[:, 0])


class Added(nn.Module):
    """An attention layer whose output is added to its input."""

    def __init__(self, look: nn.Module) -> None:
        super().__init__()
        self.look = look

    def forward(self, x: Tensor) -> Tensor:
        return x + through(self.look, x)


def through(layer: nn.Module, x: Tensor) -> Tensor:
    """The tokens after a layer; of an attention layer the first of what it returns."""
    if isinstance(layer, MultiHeadAttention | OneHead):
        return layer(x, x, x)[0]
    return layer(x)


class CausalAttention(MultiHeadAttention):
    """Attention in which a token sees itself and the tokens before it (notebook 03)."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = True,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        parts = zip(
            (query, key, value),
            self.in_proj_weight.chunk(3),
            self.in_proj_bias.chunk(3),
            strict=True,
        )
        q, k, v = (self._split_heads(nn.functional.linear(*part)) for part in parts)
        mask = self.may_look(query)
        x = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(x.transpose(1, 2).reshape(query.shape)), None

    def may_look(self, query: Tensor) -> Tensor:
        """The mask, (queries, keys): the order is that of the patches."""
        length = query.shape[1]
        return torch.ones(length, length, dtype=torch.bool).tril()


class RandomOrderAttention(CausalAttention):
    """The same in another order of the tokens in each picture, drawn anew each time."""

    def may_look(self, query: Tensor) -> Tensor:
        """The mask, (n, 1, queries, keys)."""
        place = torch.rand(query.shape[:2]).argsort(dim=1)
        return (place[:, :, None] >= place[:, None, :])[:, None]


class SelfOnlyAttention(CausalAttention):
    """Attention in which a token sees itself alone."""

    def may_look(self, query: Tensor) -> Tensor:
        return torch.eye(query.shape[1], dtype=torch.bool)


class BareBlock(nn.Module):
    """Attention, then the MLP, and nothing else; or with one of the two remedies of notebook 04."""

    def __init__(self, norm: bool = False, residual: bool = False) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH, eps=1e-6) if norm else nn.Identity()
        self.self_attention = MultiHeadAttention(WIDTH, HEADS)
        self.ln_2 = nn.LayerNorm(WIDTH, eps=1e-6) if norm else nn.Identity()
        self.mlp = MLPBlock(WIDTH, MLP_DIM, 0.0)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y)
        x = x + y if self.residual else y
        y = self.mlp(self.ln_2(x))
        return x + y if self.residual else y


class NoAttention(nn.Module):
    """Stands where a block's attention stands, and adds nothing to a token."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **options) -> tuple[Tensor, None]:
        return torch.zeros_like(query), None


def without_attention(model: nn.Module) -> nn.Module:
    """The model, changed: in none of its blocks a token sees another."""
    for part in list(model.modules()):
        if isinstance(part, EncoderBlock):
            part.add_module("self_attention", NoAttention())
            part.ln_1 = nn.Identity()
    return model


def without_positions(model: nn.Module) -> nn.Module:
    """The model, changed: the position embedding is zero and stays zero."""
    for part in model.modules():
        if isinstance(part, Encoder):
            nn.init.zeros_(part.pos_embedding).requires_grad_(False)
    return model


def changed(make: Callable[[], nn.Module], *changes: Callable) -> Callable[[], nn.Module]:
    """A builder of a model that is changed after it was made."""

    def build() -> nn.Module:
        model = make()
        for change in changes:
            model = change(model)
        return model

    return build


def one_head(bug: str = "no bug") -> OneHead:
    """A head of notebook 02, as wide as a token."""
    return OneHead(partial(BrokenHead, bug), WIDTH)


def two_heads() -> MultiHeadAttention:
    return MultiHeadAttention(WIDTH, HEADS)


def mlp(width: int = MLP_DIM) -> MLPBlock:
    return MLPBlock(WIDTH, width, 0.0)


def block() -> EncoderBlock:
    return EncoderBlock(HEADS, WIDTH, MLP_DIM, 0.0, 0.0)


def with_encoder(layers: int = 2) -> nn.Module:
    """The classifier of notebook 05."""
    return Classifier(Encoder(16, layers, HEADS, WIDTH, MLP_DIM, 0.0, 0.0))


def with_shared_block() -> nn.Module:
    """The same, with one block in both places of the encoder."""
    model = with_encoder(layers=1)
    (encoder,) = model.between
    encoder.layers.add_module("encoder_layer_1", encoder.layers.encoder_layer_0)
    return model


def blocks(depth: int, make: Callable[[], nn.Module] = block) -> nn.Module:
    """The classifier of notebook 04."""
    return Classifier(*[make() for _ in range(depth)])


def whole(image_size: int = 28, classes: int = 10) -> VisionTransformer:
    """The whole Vision Transformer, of the sizes of ``vit_mnist(patch_size=7)``."""
    sizes = (image_size, PATCH, 2, HEADS, WIDTH, MLP_DIM)
    return VisionTransformer(*sizes, num_classes=classes, in_channels=1)


def whole_finder() -> nn.Module:
    """The whole model for the relational task.

    Its positions start 25 times as large as usual: the answer depends on which patch is the first,
    and with torchvision's start the model does not find that out in so few steps.
    """
    model = whole(3 * PATCH, 2)
    nn.init.normal_(model.encoder.pos_embedding, std=0.5)
    return model


class Registers(nn.Module):
    """The whole Vision Transformer with two register tokens behind the class token (notebook 06).

    They are put in after the positions were added, so all weights of the model still fit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.vit = whole()
        self.registers = nn.Parameter(torch.randn(1, 2, WIDTH) * 0.02)

    def forward(self, images: Tensor) -> Tensor:
        encoder = self.vit.encoder
        x = self.vit._to_tokens(images) + encoder.pos_embedding
        registers = self.registers.expand(len(x), -1, -1)
        x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)
        x = encoder.ln(encoder.layers(encoder.dropout(x)))
        return self.vit.heads(x[:, 0])


def finder(bug: str = "no bug", pool: str = "first") -> nn.Module:
    """Notebook 02's model, with a head that may have a bug."""
    return Finder(one_head(bug), pool)


ROWS = {  # in the order of the course
    # 00
    "pixels_linear": Row("linear layer on all pixels", lambda: on_pixels(784, 10)),
    "pixels_mlp": Row("MLP on all pixels", lambda: on_pixels(784, 128, 10), twin="pixels_linear"),
    "patches_only": Row("patches, averaged", Classifier),
    # 01
    "with_mlp_no_gelu": Row(
        "MLP block without GELU",
        lambda: Classifier(LinearInTheMiddle(WIDTH, MLP_DIM, 0.0)),
        twin="patches_only",
    ),
    "with_gelu": Row("GELU alone", lambda: Classifier(nn.GELU()), twin="patches_only"),
    "with_mlp": Row("MLP block", lambda: Classifier(mlp()), twin="patches_only"),
    "with_mlp_16": Row("MLP block, 16 wide, not 256", lambda: Classifier(mlp(16)), twin="with_mlp"),
    "with_mlp_512": Row(
        "MLP block, 512 wide, not 256", lambda: Classifier(mlp(512)), twin="with_mlp"
    ),
    # 02
    "with_head": Row("one head, MLP block", lambda: Classifier(one_head(), mlp()), twin="with_mlp"),
    "with_head_added": Row(
        "one head, added, MLP block",
        lambda: Classifier(Added(one_head()), mlp()),
        twin="with_mlp",
    ),
    "same_mlp": Row(
        "same patch? no attention",
        lambda: Finder(None),
        steps=RELATION,
    ),
    "same_pixels": Row(  # as many CPU seconds as "same_head"
        "same patch? MLP on all pixels",
        lambda: on_pixels(441, 192, 64, 2),
        twin="same_mlp",
        steps=3000,
    ),
    "same_head": Row("same patch? one head", finder, twin="same_mlp", steps=RELATION),
    "same_mean": Row(
        "same patch? one head, mean",
        partial(finder, pool="mean"),
        twin="same_head",
        steps=RELATION,
    ),
    "same_no_root": Row(
        "same patch? head without √d",
        partial(finder, "no root"),
        twin="same_head",
        steps=RELATION,
    ),
    "same_columns": Row(
        "same patch? softmax over queries",
        partial(finder, "softmax over queries"),
        twin="same_head",
        steps=RELATION,
    ),
    "same_one_matrix": Row(
        "same patch? head with w_q twice",
        partial(finder, "w_q twice"),
        twin="same_head",
        steps=RELATION,
    ),
    # 03
    "with_heads": Row(
        "two heads, MLP block", lambda: Classifier(two_heads(), mlp()), twin="with_head"
    ),
    "with_heads_causal": Row(
        "two heads that see no later patch",
        lambda: Classifier(CausalAttention(WIDTH, HEADS), mlp()),
        twin="with_heads",
    ),
    "with_heads_random_order": Row(
        "two heads, order drawn per picture",
        lambda: Classifier(RandomOrderAttention(WIDTH, HEADS), mlp()),
        twin="with_heads",
    ),
    "with_heads_self_only": Row(
        "two heads, a patch sees itself alone",
        lambda: Classifier(SelfOnlyAttention(WIDTH, HEADS), mlp()),
        twin="with_heads",
    ),
    # 04
    "with_block": Row("one encoder block", partial(blocks, 1), twin="with_heads"),
    "bare_6": Row("six blocks, no norm, no residual", partial(blocks, 6, BareBlock), epochs=DEEP),
    "no_residual_6": Row(
        "six blocks, norm alone",
        partial(blocks, 6, partial(BareBlock, norm=True)),
        twin="bare_6",
        epochs=DEEP,
    ),
    "no_norm_6": Row(
        "six blocks, residual alone",
        partial(blocks, 6, partial(BareBlock, residual=True)),
        twin="bare_6",
        epochs=DEEP,
    ),
    "blocks_6": Row("six encoder blocks", partial(blocks, 6), twin="bare_6", epochs=DEEP),
    # 05
    "blocks_2": Row("two encoder blocks", partial(blocks, 2), twin="with_block"),
    "blocks_2_mlp": Row(
        "two encoder blocks, no attention", changed(partial(blocks, 2), without_attention)
    ),
    "encoder_bag_mlp": Row(
        "encoder, no positions, no attention",
        changed(with_encoder, without_positions, without_attention),
    ),
    "encoder_bag": Row(
        "encoder, no positions", changed(with_encoder, without_positions), twin="encoder_bag_mlp"
    ),
    "encoder_mlp": Row(
        "encoder, no attention", changed(with_encoder, without_attention), twin="encoder_bag_mlp"
    ),
    "encoder": Row("encoder of two blocks", with_encoder, twin="encoder_bag"),
    "encoder_1": Row("encoder of one block", partial(with_encoder, 1)),
    "encoder_shared": Row("encoder, one block twice", with_shared_block, twin="encoder_1"),
    # 06
    "whole_mlp": Row(  # the class token sees no patch
        "Vision Transformer, no attention", changed(whole, without_attention), epochs=1
    ),
    "whole": Row("Vision Transformer", whole, twin="whole_mlp"),
    "whole_registers": Row("Vision Transformer, two registers", Registers, twin="whole"),
    "same_whole_mlp": Row(
        "same patch? ViT, no attention",
        changed(whole_finder, without_attention),
        steps=RELATION_WHOLE,
    ),
    "same_whole": Row(
        "same patch? Vision Transformer",
        whole_finder,
        twin="same_whole_mlp",
        steps=RELATION_WHOLE,
    ),
    "same_pixels_long": Row(  # as many CPU seconds as "same_whole"
        "same patch? MLP on all pixels, long",
        lambda: on_pixels(441, 192, 64, 2),
        twin="same_whole_mlp",
        steps=10_000,
    ),
}
