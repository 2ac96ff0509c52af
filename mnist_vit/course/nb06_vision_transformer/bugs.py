"""Seven silent bugs, each an edit of ``mnist_vit/model.py``; models with them all train.

``experiments/bugs.py`` trains them; notebook 06 hunts them.
"""

import functools
import re
from collections.abc import Callable

from torch import Tensor, nn

from ..checking.edits import edited_model

BUGS: dict[str, dict[str, str]] = {  # what stands in the source, and what a slip makes of it
    "right": {},
    "divided_by_d_model": {"q / math.sqrt(self.head_dim)": "q / self.embed_dim"},
    "not_divided": {"q / math.sqrt(self.head_dim)": "q"},
    "softmax_over_queries": {"scores.softmax(dim=-1)": "scores.softmax(dim=-2)"},
    "heads_merged_by_reshape": {"(weights @ v).transpose(1, 2)": "weights @ v"},
    "heads_split_by_reshape": {
        "x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)": (
            "x.reshape(x.shape[0], self.num_heads, x.shape[1], self.head_dim)"
        )
    },
    "gelu_on_the_logits": {"x = self.heads(x)": "x = F.gelu(self.heads(x))"},
    "positions_forgotten": {"input = input + self.pos_embedding": ""},
}


@functools.cache
def _class_of(name: str) -> Callable[..., nn.Module]:
    return edited_model(BUGS[name])


def broken(name: str, *sizes: int, **options) -> nn.Module:
    """A ``VisionTransformer`` with that bug in it, and attention from scratch in its blocks."""
    return _class_of(name)(*sizes, **options)


def outputs(model: nn.Module, images: Tensor) -> dict[str, Tensor]:
    """What every part of a model gives for these images, by the part's name, in the order in which
    they are done.

    Of a layer that returns several things, as attention does, the first one. What is inside
    attention and MLP, which learners build in their own ways, is left out, and so is the list of
    the blocks, which not everybody calls.
    """
    seen: dict[str, Tensor] = {}

    def keep(name, module, given, output):
        seen[name] = (output[0] if isinstance(output, tuple) else output).detach()

    left_out = re.compile(r"(.*\.)?(self_attention|mlp)\..*|encoder\.layers|")
    parts = {name: part for name, part in model.named_modules() if not left_out.fullmatch(name)}
    hooks = [
        part.register_forward_hook(functools.partial(keep, name)) for name, part in parts.items()
    ]
    try:
        model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


SUSPECTS = {
    "A": "heads_merged_by_reshape",
    "B": "positions_forgotten",
    "C": "not_divided",
    "D": "gelu_on_the_logits",
    "E": "heads_split_by_reshape",
    "F": "right",
    "G": "softmax_over_queries",
    "H": "divided_by_d_model",
}
