"""Exercise: the experiments that tell broken MLP blocks apart; and the blocks."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..checking import Evidence, Exercise, Mistake, Slip, random, randomise


def my_examine(block: nn.Module, x: Tensor) -> str:
    block.eval()
    with torch.no_grad():
        y = block(x)
        if not torch.equal(y, block(x)):
            return "drops in eval mode"
        other = x.clone()
        other[:, 0] += 1.0
        if (block(other) - y)[:, 1:].abs().max() > 1e-4:
            return "tokens mix"
        bend = block(x) + block(-x) - 2 * block(0 * x)
        if bend.abs().max() < 1e-4:
            return "no GELU"
        zeros = (block.train()(x) == 0).sum()
        if zeros == 0:
            return "no second dropout"
    return "right"


KINDS = ("right", "no GELU", "tokens mix", "no second dropout", "drops in eval mode")
ORDER = (2, 0, 3, 1, 4)  # of the check
LETTERS = {"A": 4, "B": 1, "C": 0, "D": 2, "E": 3}  # of the notebook
TELLS = {
    "no GELU": (
        "Such a block is linear but for its biases, so f(a) + f(b) is f(a + b) + f(0), and not f(a"
        " + b)"
    ),
    "tokens mix": "In such a block one token's output changes when another token changes",
    "no second dropout": (
        "In train mode such a block gives no zeros: nothing is dropped at its very end"
    ),
    "drops in eval mode": "In eval mode such a block gives other numbers each time",
    "right": "A right block passes every experiment",
}


LOOKS = {  # what a right block does, too
    "no GELU": "Of a right block f(a) + f(b) is far from f(a + b) + f(0), in eval mode",
    "tokens mix": (
        "Of a right block the changed token's own row changes, in train mode every row; and"
        " rounding differs by the number of tokens"
    ),
    "no second dropout": "A right block gives exact zeros in train mode, and only there",
    "drops in eval mode": "A right block gives other numbers each time in train mode",
}


def tell(evidence: Evidence) -> tuple[str, str]:
    """How a block of the right name is told, or what of a right block looks like a mistake."""
    name, right = evidence.value, evidence.expected
    if name not in KINDS or right not in KINDS:
        return "", ""
    return "", f"{LOOKS[name] if right == 'right' else TELLS[right]}."


class Block(nn.Module):
    """An MLP block with one mistake, or none. Which one cannot be read off its layers."""

    def __init__(self, number: int, in_dim: int, mlp_dim: int, seed: int) -> None:
        super().__init__()
        self.add_module("0", nn.Linear(in_dim, mlp_dim))
        self.add_module("3", nn.Linear(mlp_dim, in_dim))
        self._number = number
        randomise(self, seed=seed)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 3:
            raise Mistake(
                f"the block was given the shape {tuple(x.shape)}: it takes (n, tokens, numbers)."
            )
        kind = KINDS[self._number]
        drop = self.training or kind == "drops in eval mode"
        h = self.get_submodule("0")(x)
        h = F.dropout(h if kind == "no GELU" else F.gelu(h), 0.5, drop)
        y = self.get_submodule("3")(h)
        if kind == "tokens mix":
            y = y + 0.2 * h.mean(dim=1, keepdim=True)[..., : y.shape[-1]]
        return F.dropout(y, 0.5, drop and kind != "no second dropout")


def suspects(in_dim: int, mlp_dim: int) -> dict[str, nn.Module]:
    """The five blocks of the notebook, by letter."""
    return {
        letter: Block(number, in_dim, mlp_dim, seed=number) for letter, number in LETTERS.items()
    }


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Ends at the first wrong name: what the later blocks are called may be another mistake's."""
    for seed, (tokens, in_dim, mlp_dim) in enumerate(((6, 20, 80), (16, 49, 196))):
        for number in ORDER:
            torch.manual_seed(seed)
            x = random(3, tokens, in_dim, seed=10 * seed + number)
            name = answer(Block(number, in_dim, mlp_dim, seed=10 * seed + number), x)
            right = KINDS[number]
            if isinstance(name, str) and name not in KINDS:
                raise Mistake(f'"{name[:40]}" is none of the five names: {", ".join(KINDS)}.')
            yield f'the name of a block that is "{right}"', name
            if name != right:
                return


REPEAT, EVAL = "not torch.equal(y, block(x))", "block.eval()"
MIX, BEND = "(block(other) - y)[:, 1:].abs().max() > 1e-4", "bend.abs().max() < 1e-4"
ZEROS, SUM = "zeros == 0", "block(x) + block(-x) - 2 * block(0 * x)"

SLIPS = (
    Slip(
        {REPEAT: "False"}, 'do not look first for "drops in eval mode"', TELLS["drops in eval mode"]
    ),
    Slip(
        {MIX: "False"},
        "look at no other token's row after changing one",
        f"{TELLS['tokens mix']}: change one alone, and look at the others",
    ),
    Slip({BEND: "False"}, "do not ask whether the block is linear", TELLS["no GELU"]),
    Slip({ZEROS: "False"}, "do not count zeros in train mode", TELLS["no second dropout"]),
    Slip(
        {BEND: "(y < 0).any()"},
        'take negative or large numbers for "no GELU"',
        "A right block gives both, from its second linear layer",
    ),
    Slip(
        {EVAL: "block.train()"},
        "compare two runs in train mode",
        "There every right block drops other numbers each time. Call block.eval() first",
    ),
    Slip(
        {MIX: "(block(other) - y).abs().max() > 1e-4"},
        "look at the row of the changed token, too, or compare in train mode",
        "Compare in eval mode, and only the rows of the other tokens: that of the changed token"
        " changes in every block",
    ),
    Slip(
        {"block.train()(x)": "block(x)"},
        "count zeros in eval mode, or find none",
        "In train mode, and only there, a right one gives exact zeros: count them after"
        " block.train()",
    ),
)

EXERCISE = Exercise(
    answer=my_examine,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "Five names, four experiments. Begin with the one that would disturb the others: in"
            " eval mode, are two runs with the same x equal? Then ask for each mistake: which x,"
            " changed how, would show it in the output?"
        ),
        (
            "eval mode: block(x) twice; change one token and look at the rows of the others;"
            " compare block(x) + block(-x) with 2 * block(0 * x). Train mode: count exact zeros in"
            " the output, which only the last dropout makes."
        ),
    ),
    same=({SUM: "block(2 * x) - 2 * block(x) + block(0 * x)"},),
)
