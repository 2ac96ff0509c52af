"""What others made: scikit-learn's handwritten digits, and a file in which another library keeps a
Vision Transformer.

The names are those of ``Dinov2Model`` in transformers 5; the official DINOv2 files and timm have
others, which ``as_in_transformers`` translates. Layer scale (Touvron et al. 2021, arXiv 2103.17239)
multiplies what attention and MLP give, number by number, before it is added.
"""

import re

import torch
import torch.nn.functional as F
from torch import Tensor

from ...datasets import MNIST_MEAN, MNIST_STD
from ...model import VisionTransformer

RENAMED = {  # within a block: transformers' name, and ours; biases like weights
    "norm1": "ln_1",
    "norm2": "ln_2",
    "mlp.fc1": "mlp.0",
    "mlp.fc2": "mlp.3",
    "attention.o_proj": "self_attention.out_proj",
}
OUTSIDE = {  # of the blocks
    "embeddings.cls_token": "class_token",
    "embeddings.position_embeddings": "encoder.pos_embedding",
    "embeddings.patch_embeddings.projection.weight": "conv_proj.weight",
    "embeddings.patch_embeddings.projection.bias": "conv_proj.bias",
    "layernorm.weight": "encoder.ln.weight",
    "layernorm.bias": "encoder.ln.bias",
}
OLDER = {  # patterns of transformers 4, then of timm and official files: what transformers 5 says
    r"attention\.attention\.(q|k|v)\w+\.": r"attention.\1_proj.",
    r"attention\.output\.dense": "attention.o_proj",
    r"^cls_token": "embeddings.cls_token",
    r"^pos_embed": "embeddings.position_embeddings",
    r"^mask_token": "embeddings.mask_token",
    r"^patch_embed\.proj": "embeddings.patch_embeddings.projection",
    r"^norm\.": "layernorm.",
    r"^blocks\.": "encoder.layer.",
    r"attn\.proj\.": "attention.o_proj.",
    r"ls(1|2)\.gamma": r"layer_scale\1.lambda1",
}


def other_digits(size: int = 20) -> tuple[Tensor, Tensor]:
    """scikit-learn's 1,797 digits: (1797, 1, 28, 28), normalised as MNIST is, and their labels.

    The pictures of 8 x 8 are enlarged to ``size`` pixels and set in the middle of 28, as MNIST's
    were to 20.
    """
    from sklearn.datasets import load_digits  # slow to import; every check imports this module

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    images = F.interpolate(images, size=(size, size), mode="bilinear", align_corners=False)
    edge = (28 - size) // 2
    padded = F.pad(images, (edge, 28 - size - edge) * 2)
    return (padded - MNIST_MEAN) / MNIST_STD, torch.tensor(digits.target)


def block_file(block: dict[str, Tensor], scale_1: Tensor, scale_2: Tensor) -> dict[str, Tensor]:
    """One of our encoder blocks as transformers keeps it, with these layer scales: it computes the
    same."""
    kept = {"layer_scale1.lambda1": scale_1, "layer_scale2.lambda1": scale_2}
    for kind in ("weight", "bias"):
        kept |= {f"{theirs}.{kind}": block[f"{ours}.{kind}"] for theirs, ours in RENAMED.items()}
        parts = block[f"self_attention.in_proj_{kind}"].chunk(3)
        kept |= {
            f"attention.{name}_proj.{kind}": part for name, part in zip("qkv", parts, strict=True)
        }
    for layer, scale in (("attention.o_proj", scale_1), ("mlp.fc2", scale_2)):
        kept[f"{layer}.weight"] = kept[f"{layer}.weight"] / scale[:, None]
        kept[f"{layer}.bias"] = kept[f"{layer}.bias"] / scale
    return kept


def their_file(model: VisionTransformer) -> dict[str, Tensor]:
    """A model of ours, its class head left out, as transformers would keep a DINOv2 that computes
    the same."""
    state, generator = model.state_dict(), torch.Generator().manual_seed(0)
    kept = {theirs: state[ours] for theirs, ours in OUTSIDE.items()}
    kept["embeddings.mask_token"] = torch.zeros(1, model.hidden_dim)  # for pretraining only
    for i in range(len(model.encoder.layers)):
        scales = 0.2 + 1.6 * torch.rand(2, model.hidden_dim, generator=generator)
        block = {
            name.partition(f"_{i}.")[2]: tensor
            for name, tensor in state.items()
            if f"encoder_layer_{i}." in name
        }
        kept |= {
            f"encoder.layer.{i}.{name}": tensor
            for name, tensor in block_file(block, *scales).items()
        }
    return kept


def as_in_transformers(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of transformers 4, of timm, or of an official DINOv2 file, under the names of
    transformers 5."""
    new: dict[str, Tensor] = {}
    for name, tensor in state.items():
        for old, now in OLDER.items():
            name = re.sub(old, now, name)
        if ".attn.qkv." in name:  # the three matrices are one, as in ours
            parts = zip("qkv", tensor.chunk(3), strict=True)
            new |= {
                name.replace("attn.qkv", f"attention.{letter}_proj"): part for letter, part in parts
            }
        else:
            new[name] = tensor
    return new
