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
AGAIN = 12  # further right blocks
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

    rate = 0.5  # of the dropouts
    last_rate = 0.5
    share = 0.2  # of what a token gets of others, where tokens mix

    def __init__(self, number: int, in_dim: int, mlp_dim: int, seed: int) -> None:
        super().__init__()
        self.add_module("0", nn.Linear(in_dim, mlp_dim))
        self.add_module("3", nn.Linear(mlp_dim, in_dim))
        self._number = number
        randomise(self, seed=seed)

    def mixed(self, h: Tensor) -> Tensor:
        """What others give to a token, where tokens mix."""
        return h.mean(dim=1, keepdim=True)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 3:
            raise Mistake(
                f"the block was given the shape {tuple(x.shape)}: it takes (n, tokens, numbers)."
            )
        kind = KINDS[self._number]
        drop = self.training or kind == "drops in eval mode"
        h = self.get_submodule("0")(x)
        h = F.dropout(h if kind == "no GELU" else F.gelu(h), self.rate, drop)
        y = self.get_submodule("3")(h)
        if kind == "tokens mix":
            y = y + self.share * self.mixed(h)[..., : y.shape[-1]]
        return F.dropout(y, self.last_rate, drop and kind != "no second dropout")


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
    for seed in range(2, 2 + AGAIN):  # a right block drops other numbers each time
        torch.manual_seed(seed)
        name = answer(Block(0, 20, 80, seed=10 * seed), random(3, 6, 20, seed=10 * seed))
        yield f"the name of a right block, number {seed + 1}", name
        if name != "right":
            return


# ---------------------------------------------------------------------- further blocks


class _NothingDropped(Block):
    """Gives the same in both modes."""

    rate = last_rate = 0.0


class _NearlyAllDropped(Block):
    """Of its output nine in ten numbers are zero."""

    last_rate = 0.9


class _Strongly(Block):
    """What a token gets of others is large."""

    share = 20.0


class _Unrounded(Block):
    """Has no matrix product, so that its numbers are the same for any number of tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x.abs(), self.last_rate, self.training)


class _Straight(Block):
    """Linear, and nothing is rounded: half of what comes out is 2 x, the other half constant."""

    rate = last_rate = 0.0

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        return torch.cat([2 * x[..., :half], torch.full_like(x[..., half:], 3.0)], dim=-1)


class _Doubling(Block):
    """Linear, nothing is rounded, and no bias."""

    rate = last_rate = 0.0

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


class _Unequal(Block):
    """A token gets the more of others the later they stand."""

    def mixed(self, h: Tensor) -> Tensor:
        shares = torch.arange(1.0, 1 + h.shape[1])[:, None]
        return (h * shares / shares.sum()).sum(dim=1, keepdim=True)


class _Pictures(Block):
    """A token gets something of the same token in other pictures."""

    def mixed(self, h: Tensor) -> Tensor:
        return h.mean(dim=0, keepdim=True)


def _other_blocks() -> dict[str, Block]:
    """Blocks that tell apart for which reason a name is given, or is not."""
    sizes = {"in_dim": 20, "mlp_dim": 80, "seed": 5}
    right, bare, mixing = (KINDS.index(kind) for kind in ("right", "no GELU", "tokens mix"))
    blocks = {kind: Block(number, **sizes) for number, kind in enumerate(KINDS)}
    blocks |= {
        "no biases": Block(bare, **sizes),
        "linear, nothing dropped": _NothingDropped(bare, **sizes),
        "nothing dropped": _NothingDropped(right, **sizes),
        "nearly all dropped": _NearlyAllDropped(right, **sizes),
        "larger": Block(right, **sizes),
        "unrounded": _Unrounded(right, **sizes),
        "straight": _Straight(bare, **sizes),
        "doubling": _Doubling(bare, **sizes),
        "strongly": _Strongly(mixing, **sizes),
        "unequal": _Unequal(mixing, **sizes),
        "pictures": _Pictures(mixing, **sizes),
    }
    with torch.no_grad():
        for name, parameter in blocks["no biases"].named_parameters():
            parameter.mul_(0.0 if name.endswith("bias") else 1.0)
        for parameter in blocks["larger"].parameters():
            parameter.mul_(3)
    return blocks


def _names(answer: Any) -> dict[str, Any]:
    """What an answer says of each of the further blocks."""
    said = {}
    for name, block in _other_blocks().items():
        said[name] = answer(block, random(3, 6, 20, seed=7))
    if all(said[kind] == kind for kind in KINDS):
        said["right"] = _by_chance(answer)
    return said


def _by_chance(answer: Any) -> Any:
    """The first wrong name of many that a right block is given; "right" if there is none."""
    for seed in range(100):
        block = Block(KINDS.index("right"), in_dim=20, mlp_dim=80, seed=5)
        name = answer(block, random(3, 6, 20, seed=100 + seed))
        if name != "right":
            return name
    return "right"


# Of a block that is given a wrong name: which further blocks are given which names, too.
ASKED = {
    "right": (
        ("larger", "no GELU"),
        ("nothing dropped", "tokens mix"),
        ("unrounded", "tokens mix"),
        ("nothing dropped", "no second dropout"),
        ("nearly all dropped", "no second dropout"),
        ("no second dropout", "no second dropout"),
        ("no GELU", "no GELU"),
    ),
    "no GELU": (
        ("no biases", "no GELU"),
        ("linear, nothing dropped", "no GELU"),
        ("straight", "no GELU"),
        ("doubling", "no GELU"),
    ),
    "tokens mix": (
        ("strongly", "tokens mix"),
        ("unequal", "tokens mix"),
        ("pictures", "tokens mix"),
        ("nothing dropped", "drops in eval mode"),
    ),
    "no second dropout": (("nothing dropped", "no second dropout"),),
    "drops in eval mode": (),
}


def more(answer: Any) -> list[Any]:
    """The first block that is given a wrong name, the name, and what further blocks show of it."""
    said = _names(answer)
    kind = _first_wrong(said)
    return [kind, said[kind], *(said[other] == name for other, name in ASKED[kind])]


def _first_wrong(said: dict[str, Any]) -> str:
    for number in ORDER:
        if said[KINDS[number]] != KINDS[number]:
            break
    return KINDS[number]


# A block of a kind, a name, another block that is given this name where the first is not, or the
# other way round; what is said of it, and what to do instead.
SEEN = (
    (
        "tokens mix",
        "tokens mix",
        "pictures",
        "It finds blocks in which pictures mix, and not those in which the tokens of one picture"
        " do.",
        "Change one token of a picture, and look at the other tokens of the same picture.",
    ),
    (
        "tokens mix",
        "tokens mix",
        "strongly",
        "It finds blocks in which tokens mix strongly, and not those in which they mix a little.",
        "Only differences below 0.0001 are rounding.",
    ),
    (
        "tokens mix",
        "tokens mix",
        "unequal",
        "It finds blocks in which it matters where a token stands, and not those in which all"
        " tokens mix in the same way whatever their order, as by their mean.",
        "The mean is the same in whatever order the tokens stand: change one token alone, and look"
        " at the rows of the others.",
    ),
    (
        "no GELU",
        "no GELU",
        "linear, nothing dropped",
        "It finds a missing GELU where dropout is 0, and not where it is 0.5.",
        "Test for linearity in eval mode: in train mode dropout draws anew at each call, and no"
        " block looks linear.",
    ),
    (
        "no GELU",
        "no GELU",
        "straight",
        "It finds a missing GELU where nothing is rounded, and not in a block whose numbers are"
        " rounded.",
        "torch.equal and == ask for the last bit. Take differences below 0.0001 for rounding, as"
        " torch.allclose(a, b, atol=1e-4) does.",
    ),
    (
        "no GELU",
        "no GELU",
        "no biases",
        "It finds a missing GELU where all biases are 0, and not where they are other numbers.",
        "With biases f(2x) is not 2 f(x) even without GELU. Take f(0) into account: f(a) + f(b) is"
        " f(a + b) + f(0).",
    ),
    (
        "no GELU",
        "no GELU",
        "doubling",
        "It finds a missing GELU in a block that gives 2 x, where all biases are 0 and nothing is"
        " rounded, and not where there are biases and numbers are rounded.",
        f"{TELLS['no GELU']}. Take differences below 0.0001 for rounding, as"
        " torch.allclose(a, b, atol=1e-4) does.",
    ),
    (
        "no second dropout",
        "no second dropout",
        "nothing dropped",
        'It says "no second dropout" of a block without either dropout, and not of one that has the'
        " first.",
        "In train mode the first dropout alone makes every run another one. Only the second makes"
        " exact zeros in the output: count them.",
    ),
    (
        "right",
        "tokens mix",
        "unrounded",
        'It says "tokens mix" of a right block, and not of one that computes without rounding.',
        "Take differences below 0.0001 for rounding, as torch.allclose(a, b, atol=1e-4) does;"
        " torch.equal and == do not.",
    ),
    (
        "right",
        "tokens mix",
        "nothing dropped",
        'It says "tokens mix" of a right block with dropout 0.5, and not of one with dropout 0.',
        "Change a token in eval mode: in train mode dropout draws anew at each call, so every row"
        " changes.",
    ),
    (
        "right",
        "no second dropout",
        "nearly all dropped",
        'It says "no second dropout" of a right block whose last dropout is 0.5, and not of one'
        " where it is 0.9.",
        "Half of the outputs are zero in train mode where dropout is 0.5, a few more or fewer by"
        " chance: ask for less.",
    ),
)


def notice(answer: Any) -> Mistake | None:
    """What another block shows of the first wrong name."""
    said = _names(answer)
    first = _first_wrong(said)
    for kind, name, other, words, instead in SEEN:
        differs = (said[kind] == name) != (said[other] == name)
        is_wrong = (said[kind] == name) != (kind == name)
        if kind == first and differs and is_wrong:
            return Mistake(words, instead)
    is_one_name = len({str(said[kind]) for kind in KINDS}) == 1
    if is_one_name and isinstance(said[first], str) and first != "right":
        return Mistake(
            f'It says "{said[first]}" of a block of each of the five kinds.',
            "All have the same layers: what tells them apart is what they give. Call the block, and"
            " compare its outputs.",
        )
    return _in_train_mode(answer, first) or _written_over(answer, first)


def _in_train_mode(answer: Any, kind: str) -> Mistake | None:
    """Whether a block is said to drop in eval mode that was run in train mode alone."""
    block = _other_blocks()[kind]
    modes = []
    block.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    name = answer(block, random(3, 6, 20, seed=7))
    if name != "drops in eval mode" or not modes or not all(modes):
        return None
    return Mistake(
        f'It says "{name}" of a block that it ran in train mode alone.',
        "Call block.eval() before that test. What a test has set stays, so each one begins with"
        " the mode that it needs.",
    )


def _written_over(answer: Any, kind: str) -> Mistake | None:
    """Whether x is changed where two inputs should be compared, so that they are one."""
    if kind not in ("tokens mix", "no GELU"):
        return None
    x = random(3, 6, 20, seed=7)
    before = x.clone()
    answer(_other_blocks()[kind], x)
    if torch.equal(x, before):
        return None
    return Mistake(
        "It writes into the x that came in, so x and what was changed are one and the same tensor,"
        " before and after.",
        "other = x, or x.detach(), makes no copy. Take x.clone(), and change that.",
    )


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
        {BEND: "bend.abs().max() > 1e-4"},
        'say "no GELU" of blocks that are not linear',
        "It is the other way round: without GELU a block is linear but for its biases, and a right"
        " one is not",
    ),
    Slip(
        {EVAL: "block.train()"},
        "compare two runs of which one or both are in train mode",
        (
            "In train mode a right block drops other numbers each time: make both runs after"
            " block.eval()"
        ),
    ),
    Slip(
        {MIX: "(block(other) - y).abs().max() > 1e-4"},
        "look at the row of the changed token, too",
        (
            "A token's own row changes in every block. Change one token alone, in its place, look"
            " only at the rows of the others, and take differences below 0.0001 for rounding"
        ),
    ),
    Slip(
        {"block.train()(x)": "block(x)"},
        "count zeros in eval mode, or find none",
        (
            "A right block gives exact zeros in train mode, and only there: count them after"
            " block.train()"
        ),
    ),
    Slip(
        {ZEROS: "zeros > 0"},
        "take exact zeros for a sign that the second dropout is missing",
        "It is the second dropout that makes them, in train mode: where there are none, it is"
        " missing",
    ),
)

EXERCISE = Exercise(
    answer=my_examine,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    more=more,
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
