"""Solutions of notebook 12, made from the sources of its checks by notebooks/refresh.py."""

from torch import Tensor, nn

from mnist_vit.model import EncoderBlock, VisionTransformer


# exercise: compare_runs
def my_compare_runs(base: list[float], variant: list[float]) -> str:
    "Returns better, worse or unclear: how the variant does, compared with the base."
    difference = sum(variant) / len(variant) - sum(base) / len(base)
    # How far apart runs are that differ in nothing but the seed.
    spread = max(max(base) - min(base), max(variant) - min(variant))
    if abs(difference) <= spread:
        return "unclear"
    return "better" if difference > 0 else "worse"


# exercise: count_input
def my_count_input(image_size: int, patch_size: int, channels: int, hidden_dim: int) -> int:
    patches = (image_size // patch_size) ** 2
    weight = channels * patch_size * patch_size * hidden_dim  # of the convolution, shared by all patches
    bias = hidden_dim
    class_token = hidden_dim
    positions = (1 + patches) * hidden_dim  # the class token has a place, too
    return weight + bias + class_token + positions


# exercise: post_norm
def my_post_norm(block: EncoderBlock, z: Tensor) -> Tensor:
    "(n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)"
    attended, _ = block.self_attention(z, z, z, need_weights=False)
    x = block.ln_1(z + attended)  # the norm takes the sum, so the residual connection goes through it
    y = block.mlp(x)
    return block.ln_2(x + y)


# exercise: remove_positions
def my_remove_positions(model: VisionTransformer) -> None:
    "Changes the model that it is given."
    position = model.encoder.pos_embedding
    # Adding zeros changes nothing; without a gradient they stay zeros.
    nn.init.zeros_(position)
    position.requires_grad_(False)
