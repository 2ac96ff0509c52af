"""Exercise: how many parameters a Vision Transformer has in front of its encoder blocks."""

from collections.abc import Iterator
from typing import Any

from ..checking import Exercise


def my_count_input(image_size: int, patch_size: int, channels: int, hidden_dim: int) -> int:
    patches = (image_size // patch_size) ** 2
    weight = channels * patch_size * patch_size * hidden_dim  # of the convolution, shared by all patches
    bias = hidden_dim
    class_token = hidden_dim
    positions = (1 + patches) * hidden_dim  # the class token has a place, too
    return weight + bias + class_token + positions


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for sizes in ((28, 4, 1, 64), (32, 4, 3, 48), (224, 16, 3, 768)):
        yield f"count for {sizes}", answer(*sizes)


GRID, WINDOW = "(image_size // patch_size) ** 2", "channels * patch_size * patch_size"
BIAS, CLASS_TOKEN, PLACES = "bias = hidden_dim", "class_token = hidden_dim", "(1 + patches) * hidden_dim"

SLIPS = (
    ({WINDOW: "patch_size * patch_size"},
     "leave out the channels: each of the three colours of a pixel has its own weight"),
    ({BIAS: "bias = 0"},
     "leave out hidden_dim numbers: the convolution has a bias, the class token is a parameter, and it has a "
     "position of its own"),
    ({BIAS: "bias = 0", CLASS_TOKEN: "class_token = 0"},
     "leave out 2 * hidden_dim numbers: count the convolution's bias, the class token, and the class token's "
     "position"),
    ({BIAS: "bias = 0", CLASS_TOKEN: "class_token = 0", PLACES: "patches * hidden_dim"},
     "count the patches only: the convolution's bias, the class token and its position are hidden_dim numbers each"),
    ({GRID: "image_size // patch_size"},
     "take the patches of one row for all of them: there are as many rows as columns"),
    ({WINDOW: "channels * patch_size"}, "take a patch for a line of pixels: it has patch_size * patch_size of them"),
    ({PLACES: "hidden_dim"}, "count one position for all patches: each place has hidden_dim numbers of its own"),
    ({"weight + bias": "patches * (weight + bias)"},
     "count the convolution once for each patch: all patches share its weights"),
    ({PLACES: "(1 + channels * patches) * hidden_dim"},
     "count the patches of each colour apart: a patch holds all its channels, and is one token"),
    ({WINDOW: "channels * image_size * image_size"},
     "let the convolution see the whole picture: its window is one patch"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_count_input,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "Three things stand in front of the blocks: conv_proj, class_token and encoder.pos_embedding. Which numbers "
        "of the shapes depend on the patch?",
        "conv_proj.weight is (hidden_dim, channels, patch_size, patch_size), its bias hidden_dim numbers, class_token "
        "hidden_dim numbers. There are (image_size // patch_size) ** 2 places for patches, and one for the class "
        "token: hidden_dim numbers for each.",
    ),
)
