"""Seven silent bugs, each an edit of ``mnist_vit/model.py``: wrong Vision Transformers that all
train.

``experiments/bugs.py`` trains them; notebook 06 hunts them.
"""

import functools
import re
import types
from pathlib import Path

from torch import Tensor, nn

import mnist_vit.model

BUGS: dict[str, tuple[str, str]] = {  # what stands in the source, and what a slip makes of it
    "right": ("", ""),
    "divided_by_d_model": ("q / math.sqrt(self.head_dim)", "q / self.embed_dim"),
    "not_divided": ("q / math.sqrt(self.head_dim)", "q"),
    "softmax_over_queries": ("scores.softmax(dim=-1)", "scores.softmax(dim=-2)"),
    "heads_merged_by_reshape": ("(weights @ v).transpose(1, 2)", "weights @ v"),
    "heads_split_by_reshape": (
        "x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)",
        "x.reshape(x.shape[0], self.num_heads, x.shape[1], self.head_dim)",
    ),
    "gelu_on_the_logits": ("x = self.heads(x)", "x = F.gelu(self.heads(x))"),
    "positions_forgotten": ("input = input + self.pos_embedding", ""),
}
FROM_SCRATCH = (
    "nn.MultiheadAttention(\n"
    "            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True\n"
    "        )",
    "MultiHeadAttention(hidden_dim, num_heads, attention_dropout)",
)


@functools.cache
def edited(*edits: tuple[str, str]) -> types.ModuleType:
    """``mnist_vit.model`` with its source edited; each edit must hit one place.

    Raises:
        ValueError: the source does not hold the text, or holds it twice.
    """
    source = Path(mnist_vit.model.__file__).read_text(encoding="utf-8")
    for old, new in edits:
        if old and source.count(old) != 1:
            raise ValueError(
                f"mnist_vit/model.py holds {source.count(old)} times, not once: {old}. Mend the"
                " edit"
            )
        source = source.replace(old, new) if old else source
    module = types.ModuleType("mnist_vit.edited")
    module.__package__ = "mnist_vit"
    exec(compile(source, "mnist_vit/model.py, edited", "exec"), module.__dict__)
    return module


def broken(name: str, *sizes: int, **options) -> nn.Module:
    """A ``VisionTransformer`` with that bug in it, and attention from scratch in its blocks."""
    return edited(FROM_SCRATCH, BUGS[name]).VisionTransformer(*sizes, **options)


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
