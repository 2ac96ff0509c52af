"""Exercise: the blocks for an experiment, one without norms and one without residual
connections."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from mnist_vit.model import EncoderBlock

from ..checking import Evidence, Exercise, Mistake, Slip, describe, gradients, random, randomise


def my_ablation(block):
    class NoResidual(block):
        def forward(self, input):
            x = self.ln_1(input)
            x, _ = self.self_attention(x, x, x, need_weights=False)
            x = self.dropout(x)
            return self.mlp(self.ln_2(x))

    return partial(block, norm_layer=nn.Identity), NoResidual


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Both blocks with the same weights (those that they have), in eval mode, then with every
    number dropped."""
    # Whoever changes it spoils no other check.
    kinds = answer(type("EncoderBlock", (EncoderBlock,), {}))
    if not isinstance(kinds, tuple | list) or len(kinds) != 2 or not all(map(callable, kinds)):
        came = describe(kinds).rstrip("?")
        raise Mistake(
            f"two classes are needed, and what came back is {came}.",
            "As a pair: return without_norm, without_residual.",
        )
    if any(isinstance(kind, nn.Module) for kind in kinds):
        raise Mistake(
            "what came back holds a block that is made already.",
            "Return what makes blocks when it is called like the class that was given.",
        )
    weights = randomise(EncoderBlock(2, 6, 10, 0.0, 0.0)).state_dict()
    for kind, what in zip(kinds, ("without norms", "without residual connections"), strict=True):
        torch.default_generator.manual_seed(0)
        module = kind(2, 6, 10, 1.0, 0.0)
        if not isinstance(module, nn.Module):
            raise Mistake(
                f"what should make the block {what} does not make an nn.Module; what comes is"
                f" {describe(module)}."
            )
        if any(isinstance(getattr(module, name, None), int) for name in ("ln_1", "ln_2")):
            raise Mistake(
                f"a norm of the block {what} is a number, and no module.",
                "norm_layer is called with a width and must make a module: give it nn.Identity, not"
                " nn.Identity(), which hands on the width.",
            )
        own = module.state_dict()
        if unknown := own.keys() - weights.keys():
            raise Mistake(
                f"the block {what} has parameters that the whole block has not, such as"
                f" {min(unknown)}.",
                "The names must stay, so that all blocks can be given the same numbers: derive a"
                " class from the block, with another forward, and do not put the block into a new"
                " module.",
            )
        for name, tensor in own.items():
            if tensor.shape != weights[name].shape:
                raise Mistake(
                    f"the block {what}, made with the arguments (2, 6, 10, 1.0, 0.0), has"
                    f" {name} of the shape {tuple(tensor.shape)}, and should have"
                    f" {tuple(weights[name].shape)}.",
                    "What makes it must hand on the arguments that it is called with.",
                )
        module.load_state_dict({name: weights[name] for name in own})
        module.eval()
        for part in (
            module.mlp.modules() if isinstance(getattr(module, "mlp", None), nn.Module) else ()
        ):
            if isinstance(part, nn.Dropout):
                part.p = 0.0  # else nothing were left to compare
        x = random(2, 5, 6).requires_grad_()
        output = module(x)
        yield f"output {what}", output
        yield from ((f"{name}, {what}", value) for name, value in gradients(output, tokens=x))
        yield f"output {what}, in train mode with dropout 1", module.train()(x.detach())
    yield from _of_another_class(answer)


class _Other(EncoderBlock):
    """A block class that computes something else, under the same names."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module] = partial(nn.LayerNorm, eps=1e-6),
    ) -> None:
        super().__init__(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        self.mlp[1] = nn.Tanh()


def _of_another_class(answer: Any) -> Iterator[tuple[str, Any]]:
    """Both variants of a class of the same names whose MLP has another function in it."""
    kinds = answer(type("OtherBlock", (_Other,), {}))
    weights = randomise(EncoderBlock(2, 6, 10, 0.0, 0.0)).state_dict()
    for kind, what in zip(kinds, ("without norms", "without residual connections"), strict=True):
        module = kind(2, 6, 10, 0.0, 0.0).eval()
        module.load_state_dict({name: weights[name] for name in module.state_dict()})
        yield f"output {what}, of another class with tanh in its MLP", module(random(2, 5, 6))


NORM, RETURN = (
    "partial(block, norm_layer=nn.Identity)",
    "return partial(block, norm_layer=nn.Identity), NoResidual",
)
READ, DROP, END = "x = self.ln_1(input)", "x = self.dropout(x)", "return self.mlp(self.ln_2(x))"

TALK = "x, _ = self.self_attention(x, x, x, need_weights=False)"


def tell(evidence: Evidence) -> tuple[str, str]:
    """Where a block gives nothing, or is none of the class that was given."""
    if "of another class" in evidence.what:
        return (
            "The function was given another block class here, with the same names and nn.Tanh in"
            " place of nn.GELU.",
            "Make both variants of the class that is given: partial(block, …) and class"
            " NoResidual(block).",
        )
    if evidence.value is not None or not evidence.what.startswith("output"):
        return "", ""
    which = "norms" if "without norms" in evidence.what else "residual connections"
    return f"The forward of the block without {which} gives nothing.", "Does it end with a return?"


SLIPS = (
    Slip(
        {RETURN: f"return NoResidual, {NORM}"},
        "return the two the other way round",
        "First the block without norms, then the one without residual connections",
    ),
    Slip(
        {END: "return super().forward(input) - input"},
        "subtract the input from what the whole block gives",
        "Its second addition is still there, and the MLP still sees the sum of the first: write"
        " forward without the two additions",
    ),
    Slip(
        {NORM: "block"},
        "leave the norms of your variant without norms as they are",
        "Both must be gone",
    ),
    *(
        Slip(
            {
                RETURN: (
                    "class Half(block):\n        def __init__(self, *args):\n           "
                    f" super().__init__(*args)\n            self.{name} = nn.Identity()\n\n   "
                    " return Half, NoResidual"
                )
            },
            "take out one of the two norms only",
            "Both ln_1 and ln_2 must be gone",
        )
        for name in ("ln_1", "ln_2")
    ),
    *(
        Slip(
            {NORM: f"partial(block, norm_layer=partial(nn.LayerNorm, {options}))"},
            "take weight and bias out of the norms",
            "They still normalise. nn.Identity does nothing",
        )
        for options in ("elementwise_affine=False", "elementwise_affine=False, eps=1e-6")
    ),
    *(
        Slip(
            {NORM: f"partial(block, norm_layer={norm})"},
            "put another norm in place of the norms, such as nn.RMSNorm",
            "It still normalises. nn.Identity does nothing",
        )
        for norm in ("nn.RMSNorm", "partial(nn.RMSNorm, eps=1e-6)")
    ),
    Slip(
        {RETURN: f"return {NORM}, block"},
        "leave both residual connections in your variant without them",
        "It needs a forward of its own, spelt forward, without the two additions",
    ),
    *(
        Slip(
            {
                RETURN: (
                    "class NoNorm(block):\n"
                    "        def forward(self, input):\n"
                    "            x = self.self_attention(input, input, input)[0]\n"
                    f"            x = self.dropout(x){first}\n"
                    f"            return self.mlp(x){second}\n\n"
                    "    return NoNorm, NoResidual"
                )
            },
            f"lose {what} with the norms",
            "Take away one thing at a time",
        )
        for first, second, what in (
            (" + input", "", "the second residual connection"),
            ("", " + x", "the first residual connection"),
        )
    ),
    Slip(
        {DROP: f"{DROP} + input", END: f"{END} - input"},
        "add z and subtract it again at the end",
        "The MLP still sees the sum: write forward without the two additions",
    ),
    Slip(
        {NORM: "partial(block, norm_layer=None)"},
        "give None for the norm",
        "norm_layer is called to make one, so give it nn.Identity, which makes one that does"
        " nothing",
    ),
    Slip(
        {NORM: "partial(NoResidual, norm_layer=nn.Identity)"},
        "take the residual connections out of your variant without norms, too",
        "Take away one thing at a time, and write the other forward in a subclass: what is written"
        " into the class that was given changes every block made from it",
    ),
    Slip(
        {READ: "x = input", END: "return self.mlp(x)"},
        "take the norms out of your variant without residual connections, too",
        "Take away one thing at a time",
    ),
    Slip(
        {END: "return self.mlp(x)"},
        "lose ln_2 with the residual connections",
        "Take away one thing at a time",
    ),
    Slip(
        {DROP: f"{DROP} + input"},
        "take out only the second residual connection",
        "z is still added to what the attention gives",
    ),
    Slip(
        {END: "return x + self.mlp(self.ln_2(x))"},
        "take out only the first residual connection",
        "z' is still added to what the MLP gives",
    ),
    Slip(
        {
            RETURN: (
                "class NoNorm(block):\n        def forward(self, input):\n            x ="
                " self.self_attention(input, input, input)[0] + input\n            return x +"
                " self.mlp(x)\n\n    return NoNorm, NoResidual"
            )
        },
        "lose the dropout with the norms",
        "Take away one thing at a time",
    ),
    Slip(
        {"x, _ = self": "x = self"},
        "take the pair that attention returns for a tensor",
        "x, _ = self.self_attention(…)",
    ),
    Slip(
        {DROP: ""}, "lose the dropout with the residual connection", "Take away one thing at a time"
    ),
    Slip(
        {READ: "x = input"},
        "lose ln_1 with the residual connections",
        "Take away one thing at a time",
    ),
    Slip(
        {END: "return self.mlp(self.ln_1(x))"},
        "use ln_1 in both places of your variant without residual connections",
        "The MLP has its own norm, ln_2",
    ),
    Slip(
        {END: "return self.ln_2(x)"},
        "leave the MLP out of your variant without residual connections, or throw away its result",
        "Only the two additions go: what self.mlp gives is the output",
    ),
    Slip(
        {END: "return x"},
        "end your variant without residual connections before ln_2 and the MLP",
        "Only the two additions go: the output is self.mlp(self.ln_2(x))",
    ),
    Slip(
        {END: "return self.ln_2(self.mlp(x))"},
        "put ln_2 of your variant without residual connections behind the MLP",
        "It stands before it: self.mlp(self.ln_2(x))",
    ),
    Slip(
        {END: "return self.dropout(self.mlp(self.ln_2(x)))"},
        "drop numbers of the MLP's output once more",
        "The MLP has its dropout inside",
    ),
    *(
        Slip(
            {TALK: TALK.replace("x, x, x", given)},
            f"give the attention, without residual connections, tokens that no norm has seen for"
            f" {what}",
            "Query, key and value are all three what ln_1 gives",
        )
        for given, what in (
            ("input, x, x", "the query"),
            ("x, input, x", "the key"),
            ("x, x, input", "the value"),
            ("x, input, input", "key and value"),
        )
    ),
)

EXERCISE = Exercise(
    answer=my_ablation,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "For one of the two you need not write a block: look at the last argument of __init__,"
            " and at nn.Identity. For the other, a subclass with a forward of its own."
        ),
        (
            "functools.partial(block, norm_layer=nn.Identity) is called like block and makes blocks"
            " whose norms do nothing. `class NoResidual(block):` keeps __init__; its forward is"
            " yours without the two additions."
        ),
    ),
)
