"""Solutions of notebook 06, made from the sources of its checks by `python -m tools solutions`."""

import math
from collections import OrderedDict
from functools import partial

import torch
from torch import nn

from mnist_vit.course.nb06_vision_transformer.bugs import outputs
from mnist_vit.course.nb06_vision_transformer.first_difference import first_difference
from mnist_vit.model import Encoder as MyEncoder
from mnist_vit.model import VisionTransformer as MyVisionTransformer


# exercise: as_convolution
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


# exercise: first_difference
def my_first_difference(right, suspect, images):
    """The name of the first part of ``suspect`` whose output is not that of ``right``; None if all
    are equal."""
    suspect.load_state_dict(right.state_dict())
    right.eval()
    suspect.eval()
    a, b = outputs(right, images), outputs(suspect, images)
    for name in a:
        if not torch.allclose(a[name], b[name], atol=1e-4):
            return name
    return None


# exercise: name_the_bug
def my_name_the_bug(right, suspect, images):
    """One of the eight names in BUGS, "right" among them."""
    first = first_difference(right, suspect, images)
    if first is None:
        same = torch.allclose(right(images), suspect(images), atol=1e-4)
        return "right" if same else "gelu_on_the_logits"
    if "self_attention" not in first:
        return "positions_forgotten"

    # The same tokens through both attention layers: what do their weights say?
    good = right.encoder.layers[0].self_attention
    bad = suspect.encoder.layers[0].self_attention
    x = torch.randn(1, 5, good.embed_dim)
    _, w = good(x, x, x, average_attn_weights=False)
    _, v = bad(x, x, x, average_attn_weights=False)
    if (v.sum(dim=-1) - 1).abs().max() > 1e-3:
        return "softmax_over_queries"
    if torch.allclose(w, v, atol=1e-4):
        return "heads_merged_by_reshape"
    # ln of a ratio of two weights in a row is the difference of their scores
    factor = (v[..., 0] / v[..., 1]).log() / (w[..., 0] / w[..., 1]).log()
    if (factor / factor.mean() - 1).abs().max() > 1e-2:
        return "heads_split_by_reshape"
    return "not_divided" if factor.mean() > 1 else "divided_by_d_model"


# exercise: rectangular
class MyRectangular(MyVisionTransformer):
    """MyVisionTransformer for pictures of image_size = (height, width) pixels."""

    def __init__(self, image_size, patch_size, *sizes, **options):
        height, width = image_size
        super().__init__(height, patch_size, *sizes, **options)  # as if it were square
        seq_length = 1 + (height // patch_size) * (width // patch_size)
        noise = torch.randn(1, seq_length, self.class_token.shape[2])
        self.encoder.pos_embedding = nn.Parameter(0.02 * noise)

    def forward(self, x):
        # as in MyVisionTransformer: nothing in it asks for height or width
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        token = self.class_token.expand(len(x), -1, -1)
        x = self.encoder(torch.cat([token, x], dim=1))
        return self.heads(x[:, 0])


# exercise: registers
class MyRegisters(MyVisionTransformer):
    """MyVisionTransformer with register tokens between the class token and the patches."""

    def __init__(self, *sizes, registers=2, **options):
        super().__init__(*sizes, **options)
        noise = torch.randn(1, registers, self.class_token.shape[2])
        self.register_tokens = nn.Parameter(0.02 * noise)

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        token = self.class_token.expand(len(x), -1, -1)
        x = torch.cat([token, x], dim=1)
        x = self.encoder.dropout(x + self.encoder.pos_embedding)
        # the registers come after the addition, so they need no position
        registers = self.register_tokens.expand(len(x), -1, -1)
        x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)
        x = self.encoder.layers(x)
        x = self.encoder.ln(x)
        return self.heads(x[:, 0])


# exercise: vision_transformer
class MyVisionTransformer(nn.Module):
    """(n, in_channels, image_size, image_size) -> (n, num_classes)."""

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
        num_classes=1000,
        representation_size=None,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
        in_channels=3,
        print_shapes=False,
    ):
        super().__init__()
        self.print_shapes = print_shapes
        p = patch_size
        self.conv_proj = nn.Conv2d(in_channels, hidden_dim, kernel_size=p, stride=p)
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        seq_length = (image_size // p) ** 2 + 1
        sizes = (seq_length, num_layers, num_heads, hidden_dim, mlp_dim)
        self.encoder = MyEncoder(*sizes, dropout, attention_dropout, norm_layer)
        heads = OrderedDict()
        if representation_size is not None:
            heads["pre_logits"] = nn.Linear(hidden_dim, representation_size)
            heads["act"] = nn.Tanh()
        heads["head"] = nn.Linear(representation_size or hidden_dim, num_classes)
        self.heads = nn.Sequential(heads)

        # torchvision's start values: the class head begins at zero
        std = math.sqrt(1 / (in_channels * p * p))
        nn.init.trunc_normal_(self.conv_proj.weight, std=std)
        nn.init.zeros_(self.conv_proj.bias)
        if representation_size is not None:
            std = math.sqrt(1 / hidden_dim)
            nn.init.trunc_normal_(heads["pre_logits"].weight, std=std)
            nn.init.zeros_(heads["pre_logits"].bias)
        nn.init.zeros_(heads["head"].weight)
        nn.init.zeros_(heads["head"].bias)

    def forward(self, x):
        self.tell("Input", x.shape)
        # (n, in_channels, image_size, image_size) -> (n, hidden_dim, n_h, n_w)
        x = self.conv_proj(x)
        self.tell("After Projection", x.shape)
        # (n, hidden_dim, n_h, n_w) -> (n, hidden_dim, n_h * n_w)
        x = x.flatten(2)
        self.tell("After Reshape", x.shape)
        # (n, hidden_dim, n_h * n_w) -> (n, n_h * n_w, hidden_dim)
        x = x.transpose(1, 2)
        self.tell("After Permute", x.shape)
        self.tell("Batch Size", x.shape[0])
        token = self.class_token.expand(x.shape[0], -1, -1)
        self.tell("Batch Class Token", token.shape)
        # the class token in front: (n, 1 + n_h * n_w, hidden_dim)
        x = torch.cat([token, x], dim=1)
        self.tell("Encoder Input", x.shape)
        x = self.encoder(x)
        self.tell("Encoder Output", x.shape)
        # the class token alone: (n, hidden_dim)
        x = x[:, 0]
        self.tell("Only Batch Class Token", x.shape)
        x = self.heads(x)
        self.tell("Output", x.shape)
        return x

    def tell(self, label, shape):
        if self.print_shapes:
            print(f"{label}: {shape}")
