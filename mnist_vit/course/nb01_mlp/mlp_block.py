"""Exercise: the MLP block: linear, GELU, dropout, linear, dropout."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..checking import (
    Evidence,
    Exercise,
    Figures,
    Mistake,
    Slip,
    copy_weights,
    gradients,
    parameter_gradients,
    random,
    randomise,
)
from ..checking.raised import told

EVERYTHING = "output with dropout 1 in train mode"
AS_TORCH = (
    "nn.Dropout and F.dropout give 0 for p = 1. Dropout by hand must do so, too: there 1 - p is 0,"
    " and nothing can be divided by it."
)


class MyMLPBlock(nn.ModuleDict):
    def __init__(self, in_dim: int, mlp_dim: int, dropout: float = 0.0) -> None:
        widen, narrow = nn.Linear(in_dim, mlp_dim), nn.Linear(mlp_dim, in_dim)
        super().__init__({"0": widen, "3": narrow})
        for linear in (widen, narrow):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.normal_(linear.bias, std=1e-6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self["0"](x)
        x = F.gelu(x)
        x = self.dropout(x)
        x = self["3"](x)
        return self.dropout(x)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Eval mode; then, if the output is right there, what many runs in train mode give."""
    reference, block = _blocks(answer, 0.5)
    x = (2 * random(2, 5, 3, seed=1)).requires_grad_()
    torch.manual_seed(0)  # only matters to an answer that drops where nothing should be dropped
    before = x.detach().clone()
    output = block.eval()(x)
    if not torch.equal(x, before):
        raise Mistake(
            "the tokens that came in are changed.",
            "Make a new tensor, and leave x as it is: the encoder block adds it to the output.",
        )
    if output is None or output is ...:
        yield "output in eval mode", output
        return
    # First, since an answer that drops here gives numbers that are nobody else's, at whatever
    # probability.
    different = _differ(output, block(x))
    yield "the number of different outputs of two runs in eval mode", 2 if different else 1
    if different:
        return
    yield "output in eval mode", output
    yield from gradients(output, input=x)
    yield from parameter_gradients(output, block)
    right = reference.eval()(x)
    if output.shape == right.shape and torch.allclose(output, right, atol=1e-3):
        yield _in_train_mode(answer, 0.3)  # not 0.5, which torch takes where nothing is said
        yield EVERYTHING, _all_dropped(answer)
        yield _start_values(answer)


def _all_dropped(answer: Any) -> Any:
    """The output where everything is dropped, which the check of the encoder block needs."""
    _, block = _blocks(answer, 1.0)
    try:
        return block.train()(random(2, 5, 3, seed=1))
    except (ZeroDivisionError, ValueError, RuntimeError) as error:
        raise Mistake(f"with dropout 1 in train mode {told(error)}", AS_TORCH) from None


def _start_values(answer: Any) -> tuple[str, list[float]]:
    """Right answers may draw other random numbers, so the start values are looked at as a whole."""
    torch.manual_seed(0)
    figures = []
    for name, parameter in sorted(answer(64, 256, 0.0).state_dict().items()):
        bound = math.sqrt(6 / (64 + 256))
        values = parameter.detach().double() / (
            bound / math.sqrt(3) if parameter.dim() == 2 else 1e-6
        )
        spread = rounded(values.std(), 1)
        if parameter.dim() == 1:  # there are few biases: of large spreads the number of digits
            wide = values.std().item()
            spread = round(wide, 0) if wide < 5 else 10.0 ** math.floor(math.log10(wide))
        figures.append((f"the spread of {name} (as a share of the right one)", spread, 1.0))
    return as_one("start values", *figures)


def _in_train_mode(answer: Any, dropped: float) -> tuple[str, list[float]]:
    """Other right answers may draw other random numbers, so 200,000 runs of one token are summed
    up."""
    reference, block = _blocks(answer, dropped)
    token = torch.tensor([[[0.5, -1.0, 1.5]]])
    torch.manual_seed(0)
    with torch.no_grad():
        many = block.train()(token.expand(40_000, 5, 3).clone()).double()
        hidden = F.gelu(reference["0"](token)).double()
        clean = reference.eval()(token).double()[0, 0]
        # Two dropouts of p give a variance that can be worked out: (clean² + Σ (w h)² p / (1-p)) /
        # (1-p) - clean²
        first = (
            F.linear(hidden.square(), reference["3"].weight.double().square())[0, 0]
            * dropped
            / (1 - dropped)
        )
        variance = (clean.square() + first) / (1 - dropped) - clean.square()
    two = (many[:, :2] - many.mean((0, 1))).unbind(1)
    common = (two[0] * two[1]).mean(0).sum() / variance.sum()
    together = (many == 0).all(-1).double().mean()  # by chance p³
    mean = (many.mean((0, 1)) * clean).sum() / clean.square().sum()
    spread = many.var((0, 1)).sum() / variance.sum()
    zeros = (many == 0).double().mean()
    return as_one(
        f"with dropout {dropped} in train mode",
        ("the mean of the outputs (as a share of the right one)", rounded(mean, 1), 1.0),
        ("the variance of the outputs (as a share of the right one)", rounded(spread, 1), 1.0),
        ("the share of zeros", rounded(zeros, 1), dropped),
        ("the share of tokens whose outputs are all 0", rounded(together, 1), 0.0),
        ("the share of the variance that two tokens of a picture share", rounded(common, 1), 0.0),
    )


def _blocks(answer: Any, dropout: float) -> tuple[MyMLPBlock, Any]:
    """The solution's and the learner's block with the same random weights."""
    if isinstance(answer, nn.Module):
        raise Mistake(
            "this is an object made from the class, and the class itself is needed.",
            "Hand over the name of the class alone, without brackets behind it.",
        )
    reference = MyMLPBlock(3, 7, dropout)
    randomise(reference)
    block = answer(3, 7, dropout)
    copy_weights(reference, block)
    return reference, block


def _differ(first: Any, second: Any) -> bool:
    """Whether two outputs have other numbers; what is no such output is left to the comparison with
    the right one."""
    tensors = (
        isinstance(first, Tensor) and isinstance(second, Tensor) and first.shape == second.shape
    )
    if not tensors or first.layout != torch.strided or first.is_meta:
        return False
    return not torch.equal(first.detach().nan_to_num(), second.detach().nan_to_num())


def as_one(where: str, *figures: tuple[str, float, float]) -> tuple[str, list[float]]:
    """(what, figure, right) made one value, so that a mistake is named only if all fit; called by
    the first wrong."""
    wrong = [what for what, figure, right in figures if figure != right]
    return ", ".join([where, *wrong[:1]]), Figures(figure for _, figure, _ in figures)


def rounded(value: Tensor, digits: int) -> float:
    """So coarse that it is the same for any random numbers: a large value keeps its first digit
    only."""
    number = value.item()
    return float(f"{number:.0e}") if abs(number) >= 5 else round(number, digits)


def tell(evidence: Evidence) -> tuple[str, str]:
    """What is dropped in train mode, or which start values spread too far or too little."""
    if evidence.what.startswith("start values"):
        return _started(evidence.what, evidence.value.tolist())
    if evidence.what == EVERYTHING:
        return "With dropout 1 everything is dropped, so the output must be 0.", AS_TORCH
    if "in train mode" not in evidence.what:
        return "", ""
    zeros = float(evidence.value[2])
    alike = ""
    for call in evidence.theirs:
        if isinstance(call.output[0], Tensor):
            alike = alike or _dropped_alike(call.output[0].detach())
    if alike:
        return alike, (
            "Each hidden number of each token of each picture must be dropped, or kept, by itself,"
            " and each output, too. nn.Dropout, called with the tensor, does that."
        )
    if zeros == 0:
        return (
            "In train mode hardly any output is 0: nothing, or too little, is dropped at the very"
            " end.",
            "",
        )
    if zeros != float(evidence.expected[2]):
        return (
            f"In train mode about {100 * zeros:g} % of the outputs are 0, and the block has dropout"
            " 0.3.",
            "",
        )
    hidden = (
        "The hidden numbers must be dropped once, after GELU, with the block's own probability."
    )
    if float(evidence.value[0]) != 1:
        return (
            "In train mode as many outputs are 0 as should be, but the mean of all is another.",
            f"What is left must be divided by 1 - p, as nn.Dropout does. {hidden}",
        )
    return (
        "In train mode as many outputs are 0 as should be, and the mean of all is right: look at"
        " what is dropped before the end.",
        hidden,
    )


def _dropped_alike(many: Tensor) -> str:
    """Which numbers are dropped together that should not be; many equal pictures came in."""
    if many.dim() != 3 or len(many) < 1000:
        return ""
    is_zero = many == 0
    if is_zero.any() and (is_zero.all(-1) == is_zero.any(-1)).all():
        return "In train mode all outputs of a token are 0, or none is."
    if is_zero.any() and (is_zero.all(1) == is_zero.any(1)).all():
        return "In train mode an output is 0 for all tokens of a picture, or for none."
    first, is_left = many[..., 0], ~is_zero[..., 0]
    values = len((first[is_left] * 1e4).round().unique())
    if values == 1:
        return (
            "In train mode the first output is the same wherever it is not 0: all tokens of all"
            " pictures lose the same hidden numbers, or none."
        )
    if values == 2:
        return (
            "In train mode the first output has only two values where it is not 0, as if the"
            " hidden numbers of a token were dropped all together."
        )
    least = first.where(is_left, math.inf).amin(1)
    most = first.where(is_left, -math.inf).amax(1)
    if (most - least < 1e-4).all():  # below 0 where none is left
        return (
            "In train mode the tokens of a picture, which are equal here, give equal outputs where"
            " they are not 0: they lose the same hidden numbers."
        )
    return ""


def _started(what: str, spreads: list[float]) -> tuple[str, str]:
    """Of the first wrong start values: how large their spread is."""
    names = ("0.bias", "0.weight", "3.bias", "3.weight")
    number = [f"spread of {name} " in what for name in names].index(True)
    name, spread = names[number], spreads[number]
    if name.endswith("weight"):
        return (
            f"{name} starts with {spread:g} times the spread that it should have.",
            "nn.init.xavier_uniform_(linear.weight) gives it, in both layers.",
        )
    much = "at least " if spread >= 10 else ""
    return (
        f"{name} starts with a spread of {much}{spread * 1e-6:.1g} in place of 0.000001.",
        "nn.init.normal_(linear.bias, std=1e-6) gives it, in both layers.",
    )


def more(answer: Any) -> list[list[float]] | None:
    """Of an answer that raises: what it gives where in_dim is mlp_dim, so that all shapes fit.

    A layer taken for the other one, and one whose weight is turned round, raise the same words.
    """
    _, block = _blocks(answer, 0.5)
    with contextlib.suppress(Exception):
        block.eval()(random(2, 5, 3, seed=1))
        return None
    reference, block = MyMLPBlock(4, 4), answer(4, 4)
    randomise(reference)
    copy_weights(reference, block)
    with torch.no_grad():
        output = block.eval()(random(3, 4, seed=2))
    return [[round(number, 2) for number in token] for token in output.tolist()]


FIRST, GELU, DROP = 'x = self["0"](x)', "x = F.gelu(x)", "x = self.dropout(x)"
XAVIER, NORMAL = "nn.init.xavier_uniform_(linear.weight)", "nn.init.normal_(linear.bias, std=1e-6)"
SECOND, END = 'x = self["3"](x)', "return self.dropout(x)"
ALPHA = "F.alpha_dropout(x, self.dropout.p, self.training)"
BARE = [f'x = x @ self["{name}"].weight + self["{name}"].bias' for name in "03"]
TURNED = [f'x = F.linear(x, self["{name}"].weight.T, self["{name}"].bias)' for name in "03"]

SLIPS = (
    Slip(
        {GELU: 'x = F.gelu(x, approximate="tanh")'},
        "use the tanh approximation of GELU",
        "torchvision uses the exact one, F.gelu(x)",
    ),
    Slip(
        {GELU: "x = F.relu(x)"},
        "use ReLU",
        "The first Transformer, of Vaswani et al., did; a Vision Transformer uses GELU",
    ),
    *(
        Slip({GELU: f"x = {function}(x)"}, f"use {name}", "A Vision Transformer uses GELU")
        for function, name in (
            ("F.silu", "SiLU"),
            ("torch.tanh", "tanh"),
            ("torch.sigmoid", "the sigmoid"),
        )
    ),
    Slip(
        {DROP: "x = self.dropout(self.dropout(x))", END: "return x"},
        "drop the hidden numbers twice and the output never",
        "The second dropout comes after the second linear layer",
    ),
    Slip(
        {GELU: ""},
        "leave out the activation",
        "Two linear layers in a row are only one linear layer",
    ),
    Slip(
        {END: "return F.gelu(self.dropout(x))"},
        "apply GELU after the second linear layer too",
        "It stands between the two only",
    ),
    Slip(
        {GELU: "", END: "return self.dropout(F.gelu(x))"},
        "apply GELU after the second linear layer",
        "It stands between the two",
    ),
    Slip(
        {FIRST: 'x = self["0"](F.gelu(x))', GELU: ""},
        "apply GELU before the first linear layer",
        "It stands between the two",
    ),
    Slip(
        {FIRST: 'input = x\n        x = self["0"](x)', END: "return input + self.dropout(x)"},
        "add the input to the output",
        "That is done outside, by the encoder block of notebook 04",
    ),
    Slip(
        {FIRST: 'x = x @ self["0"].weight.T', SECOND: 'x = x @ self["3"].weight.T'},
        "leave out both biases",
        "A linear layer is x Wᵀ + b",
    ),
    Slip(
        {DROP: "x = F.dropout(x, self.dropout.p)", END: "return F.dropout(x, self.dropout.p)"},
        "use new random numbers in eval mode too, as dropout in train mode does",
        (
            "An nn.Dropout that __init__ makes knows the mode by itself, F.dropout needs"
            " training=self.training."
            " Make no layer in forward: a new nn.Dropout is in train mode always, and a new"
            " nn.Linear has new weights"
        ),
    ),
    Slip(
        {
            DROP: "x = F.dropout(x, training=self.training)",
            END: "return F.dropout(x, training=self.training)",
        },
        "drop one half, whatever dropout is",
        (
            "F.dropout and nn.Dropout take 0.5 if they are given no p: give them the dropout that"
            " came in"
        ),
    ),
    Slip(
        {END: "return x"},
        "leave out the second dropout",
        ("Dropout comes after the second linear layer, too"),
    ),
    Slip({DROP: ""}, "leave out the first dropout", "Dropout comes after GELU, too"),
    Slip(
        {DROP: "", END: "return x"},
        "drop nothing in train mode",
        "Two dropouts are needed, one after GELU and one after the second linear layer, and both"
        " are at work while self.training is True: leave the mode as it is",
    ),
    Slip(
        {GELU: "x = F.gelu(self.dropout(x))", DROP: ""},
        "drop before GELU",
        "The first dropout comes after it",
    ),
    *(
        Slip(
            {**first, **last},
            f"call F.alpha_dropout {where}, which is made for SELU: it puts another number than 0"
            " in the place of what is dropped, and shifts the rest",
            "nn.Dropout, or F.dropout, makes them 0 and divides the rest by 1 - p",
        )
        for first, last, where in (
            ({DROP: f"x = {ALPHA}"}, {}, "for the hidden numbers"),
            ({}, {END: f"return {ALPHA}"}, "at the end"),
            ({DROP: f"x = {ALPHA}"}, {END: f"return {ALPHA}"}, "both times"),
        )
    ),
    Slip(
        {XAVIER: "", NORMAL: "pass"},
        "leave the start values of nn.Linear as they are",
        "Keep the two lines of the stub that call nn.init",
    ),
    Slip(
        {XAVIER: ""},
        "leave the start weights of nn.Linear as they are",
        "Keep the line with xavier_uniform_",
    ),
    Slip(
        {NORMAL: ""},
        "leave the start biases of nn.Linear as they are",
        "Keep the line with normal_",
    ),
    Slip(
        {NORMAL: "nn.init.zeros_(linear.bias)"},
        "start the biases at zero, or far below 1e-6",
        "torchvision gives them the spread 1e-6",
    ),
    Slip(
        {XAVIER: "nn.init.xavier_normal_(linear.weight)", NORMAL: "nn.init.zeros_(linear.bias)"},
        "start the biases at zero, or far below 1e-6",
        "torchvision gives them the spread 1e-6",
    ),
    Slip(
        {FIRST: 'x = self["0"](self.dropout(x))', DROP: ""},
        "apply the first dropout to the input",
        "It comes after GELU",
    ),
    Slip(
        {FIRST: 'x = self["0"](self.dropout(x))'},
        "apply dropout to the input, too",
        "It comes after GELU and at the end",
    ),
    Slip(
        {FIRST: "x = self[0](x)", SECOND: "x = self[3](x)"},
        "write self[0] and self[3]",
        'The names of the layers are texts, self["0"] and self["3"]',
    ),
    Slip(
        {GELU: "x = nn.GELU(x)"},
        "call nn.GELU with x",
        "It makes a layer. nn.GELU()(x) or F.gelu(x) computes",
    ),
    *(
        Slip(
            {**first, **second},
            f"multiply by the weight of {layers} without transposing it, as x @ W does, or"
            " F.linear with W.T, which transposes it once more",
            'A layer is x @ W.T + b. Called, self["0"] and self["3"] transpose by themselves, and'
            " so does F.linear(x, W, b)",
        )
        for turned in (BARE, TURNED)
        for first, second, layers in (
            ({FIRST: turned[0]}, {SECOND: turned[1]}, "both layers"),
            ({FIRST: turned[0]}, {}, 'layer "0"'),
            ({}, {SECOND: turned[1]}, 'layer "3"'),
        )
    ),
    Slip(
        {FIRST: "x = self['3'](x)", SECOND: "x = self['0'](x)"},
        'go through "3" first',
        '"0" widens, "3" makes narrow again',
    ),
    *(
        Slip(
            {"for linear in (widen, narrow):": f"for linear in ({name},):"},
            f"leave the start values of layer {other} as nn.Linear makes them",
            "Both layers get both lines that call nn.init",
        )
        for name, other in (("widen", 3), ("narrow", 0))
    ),
    *(
        Slip(
            {GELU: f"x = {written}"},
            f"write GELU out with {what}",
            f"{instead}; F.gelu(x) does all of it",
        )
        for written, what, instead in (
            (
                "0.5 * x * (1 - torch.erf(x / math.sqrt(2)))",
                "1 - erf in place of 1 + erf",
                "Φ(x) is the share of numbers below x, 0.5 * (1 + erf(x / √2))",
            ),
            (
                "0.5 * x * (1 + torch.erf(x * math.sqrt(2)))",
                "x times √2 inside erf",
                "There x is divided by √2",
            ),
            ("0.5 * x * (1 + torch.erf(x))", "x itself inside erf", "There x is divided by √2"),
            (
                "x * (1 + torch.erf(x / math.sqrt(2)))",
                "1 + erf that is not halved",
                "Φ(x) is 0.5 * (1 + erf(x / √2))",
            ),
        )
    ),
    Slip(
        {END: "return self.dropout(F.gelu(F.gelu(self.dropout(x))))"},
        "apply GELU twice more after the second linear layer, as a loop over self.values() does:"
        " self.dropout is one of them",
        'Write the five steps one after the other: self["0"], F.gelu, self.dropout, self["3"],'
        " self.dropout",
    ),
    Slip({GELU: "x = F.gelu(F.gelu(x))"}, "apply GELU twice in a row", "Once is enough"),
    Slip(
        {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout)"},
        "drop with the probability 1 - dropout",
        "dropout is the share that is dropped, and nn.Dropout takes that",
    ),
)

EXERCISE = Exercise(
    answer=MyMLPBlock,
    compare=compare,
    stars=1,
    slips=SLIPS,
    tell=tell,
    more=more,
    hints=(
        (
            "Five steps in a row: linear, GELU, dropout, linear, dropout. Each takes what the one"
            " before it gave."
        ),
        (
            'self["0"](x) is the first linear layer. F.gelu(x) is the exact GELU. self.dropout(x)'
            " is used twice: after GELU, and at the end."
        ),
    ),
    same=(
        {
            FIRST: 'x = x @ self["0"].weight.T\n        x = x + self["0"].bias',
            SECOND: 'x = x @ self["3"].weight.T\n        x = x + self["3"].bias',
        },
        {GELU: "x = 0.5 * x * (1 + torch.erf(x / 2**0.5))"},
    ),
)
