"""Exercise: the encoder block, equations 2 and 3 of Dosovitskiy et al. 2020."""

import traceback
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import EncoderBlock
from mnist_vit.model import MLPBlock as MyMLPBlock
from mnist_vit.model import MultiHeadAttention as MyMultiHeadAttention

from ..checking import (
    Evidence,
    Exercise,
    Mistake,
    Slip,
    copy_weights,
    gradients,
    make,
    parameter_gradients,
    random,
    randomise,
    refused_part,
    start_values,
    with_dropout_seen,
)
from ..nb01_mlp import mlp_block
from ..nb03_multi_head_attention import multi_head_attention
from ..observing.tracing import is_theirs


class MyEncoderBlock(nn.Module):
    def __init__(
        self,
        num_heads,
        hidden_dim,
        mlp_dim,
        dropout=0.0,
        attention_dropout=0.0,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
    ):
        super().__init__()
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = MyMultiHeadAttention(hidden_dim, num_heads, dropout=attention_dropout)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MyMLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input):
        # Talk: the branch reads normalised tokens, but the tokens as they came are what it is added
        # to.
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x)
        x = x + input
        # Think: the same with the MLP, which has its dropout inside.
        y = self.ln_2(x)
        y = self.mlp(y)
        return x + y


SEEN: list[Tensor] = []  # what our solution gives with its dropout seen
REPLACED: list[Tensor] = []  # and with something else in its MLP's place


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Eval mode; train mode with every number dropped in the attention's branch alone, in both
    branches, and in the attention; other norms.

    With probability 1 dropout is no game of chance: an answer that leaves it out, or puts it
    elsewhere, shows.
    """
    weights = randomise(EncoderBlock(2, 6, 10, 0.0, 0.0))
    module = make(answer, 2, 6, 10, 1.0, 0.0)
    copy_weights(weights, module)
    module = module.double().eval()
    x = random(2, 5, 6, dtype=torch.float64).requires_grad_()
    before = x.detach().clone()
    output = _passed(module, x)
    yield "output in eval mode", output
    given = before.clone()
    yield (
        "output in train mode with dropout 1, and without chance in the MLP",
        _with_mlp_replaced(module, given),
    )
    yield (
        "output where self.dropout moves numbers by one and halves them",
        with_dropout_seen(module, before.clone(), SEEN),
    )
    if not torch.equal(given, before):
        raise Mistake(
            "the block writes over the tokens it was given.",
            "Make new ones, as x = x + input does: others still need those that came in.",
        )
    yield from gradients(output, x=x)
    yield from parameter_gradients(output, module)
    yield EVERYWHERE, _passed(module.train(), before.clone())
    plain = make(answer, 2, 6, 10, 0.0, 1.0, nn.Identity)
    plain.load_state_dict({name: weights.state_dict()[name] for name in plain.state_dict()})
    yield (
        "output in train mode with attention dropout 1",
        _passed(plain.double().train(), before.clone()),
    )
    more = make(answer, 3, 6, 10, 0.0, 0.0)
    reference = randomise(EncoderBlock(3, 6, 10, 0.0, 0.0))
    copy_weights(reference, more)
    yield "output with 3 heads", _passed(more.double().eval(), before.clone())
    other = make(answer, 2, 6, 10, 0.0, 0.0, partial(nn.LayerNorm, eps=0.5))
    copy_weights(weights, other)
    yield "output with another norm_layer", _passed(other.double().eval(), before.clone())
    yield start_values(make(answer, 2, 64, 128, 0.0, 0.0), EncoderBlock(2, 64, 128, 0.0, 0.0))


EVERYWHERE = "output in train mode with dropout 1"


def _with_mlp_replaced(module: Any, x: Tensor) -> Any:
    """The output in train mode where the MLP moves numbers by one and halves them, whatever
    dropout it has.

    Ours, for an answer that never calls a layer of this name.
    """
    called: list[int] = []

    def instead(mlp: nn.Module, given: Any, output: Any) -> Tensor:
        called.append(1)
        return given[0].roll(1, -1) / 2

    with module.mlp.register_forward_hook(instead):
        output = _passed(module.train(), x)
    if not called:
        return REPLACED[0].clone()
    if not REPLACED:
        REPLACED.append(output.detach().clone())
    return output


def tell(evidence: Evidence) -> tuple[str, str]:
    """What a block with dropout 1 has to give."""
    if evidence.what != EVERYWHERE:
        return "", ""
    return (
        "With dropout 1 all that the attention's branch and the MLP add is dropped in train mode:"
        " a block should give the tokens that it was given.",
        "self.dropout and the MLP both get dropout.",
    )


def notice(answer: Any) -> Mistake | None:
    """The probability of self.dropout; whether a part that was kept before does not pass its own
    check."""
    module = make(answer, 2, 6, 10, 0.3, 0.1)
    layer = getattr(module, "dropout", None)
    if isinstance(layer, nn.Dropout) and layer.p != 0.3:
        return Mistake(
            "In a block made with dropout=0.3 and attention_dropout=0.1 your self.dropout drops"
            f" with the probability {layer.p:g}.",
            "It gets dropout: nn.Dropout(dropout).",
        )
    for part, exercise in (
        (module.mlp, mlp_block.EXERCISE),
        (module.self_attention, multi_head_attention.EXERCISE),
    ):
        refused = refused_part(part, exercise)
        if refused is not None:
            return refused
    return None


def _passed(module: nn.Module, x: Tensor) -> Any:
    """What the block gives; torch's words for a pair in a tensor's place are turned into the likely
    reason."""
    try:
        return module(x)
    except (TypeError, AttributeError) as error:
        if any(words in str(error) for words in ("not tuple", "to tuple", "'tuple'")):
            if _is_one_in_a_tuple(error):
                raise Mistake(
                    "a tuple of one tensor stands where a tensor is needed.",
                    "A comma at the end of a line makes a tuple: take it away.",
                ) from None
            raise Mistake(
                "a tuple stands where a tensor is needed.",
                "Attention returns a pair, its output and the weights (None with"
                " need_weights=False): take the first, x, _ = "
                "self.self_attention(…).",
            ) from None
        raise


def _is_one_in_a_tuple(error: Exception) -> bool:
    """Whether a name of the learner's stands for a tuple of a single tensor."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if is_theirs(frame.f_code.co_filename):
            for value in frame.f_locals.values():
                if isinstance(value, tuple) and [type(one) for one in value] == [Tensor]:
                    return True
    return False


ATTENTION = "MyMultiHeadAttention(hidden_dim, num_heads, dropout=attention_dropout)"
TORCHS = "nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)"
LN_1, LN_2 = "x = self.ln_1(input)", "y = self.ln_2(x)"
TALK = "x, _ = self.self_attention(x, x, x, need_weights=False)"
DROP, ADD, THINK, END = "x = self.dropout(x)", "x = x + input", "y = self.mlp(y)", "return x + y"

NORM_1, NORM_2 = "self.ln_1 = norm_layer(hidden_dim)", "self.ln_2 = norm_layer(hidden_dim)"
OWN_1, OWN_2 = (
    line.replace("norm_layer(hidden_dim)", "nn.LayerNorm(hidden_dim, eps=1e-6)")
    for line in (NORM_1, NORM_2)
)

SLIPS = (
    Slip(
        {
            LN_1: "x = input",
            ADD: "x = self.ln_1(x + input)",
            LN_2: "y = x",
            END: "return self.ln_2(x + y)",
        },
        "normalise after adding (post-norm, as in 2017)",
        "Normalise what goes into a branch, and add without a norm",
    ),
    Slip(
        {LN_1: "x = input", ADD: "x = self.ln_1(x + input)"},
        "normalise after adding in the first half (post-norm there)",
        "The attention takes LN(z), and what it gives is added to z without a norm",
    ),
    Slip(
        {LN_2: "y = x", END: "return self.ln_2(x + y)"},
        "normalise after adding in the second half (post-norm there)",
        "The MLP takes LN(z'), and what it gives is added to z' without a norm",
    ),
    Slip(
        {
            LN_1: "x = input",
            ADD: "x = self.ln_1(x) + input",
            LN_2: "y = x",
            END: "return x + self.ln_2(y)",
        },
        "normalise what comes out of a branch",
        "LN belongs before the attention and before the MLP",
    ),
    Slip(
        {ADD: ""},
        "do not add the block's input to what the attention gives",
        "Equation 2 ends with + z",
    ),
    Slip({END: "return y"}, "do not add z' to what the MLP gives", "Equation 3 ends with + z'"),
    Slip(
        {ADD: "", END: "return y"},
        "leave out both residual connections",
        "Each branch is added to what came in",
    ),
    Slip(
        {ADD: "x = x + self.ln_1(input)"},
        "add the normalised tokens ln_1(z) to the attention",
        "Keep z under its own name, and add that",
    ),
    Slip(
        {LN_2: "x = y = self.ln_2(x)"},
        "add the normalised tokens ln_2(z') to the MLP",
        "Keep z' under its own name, and add that",
    ),
    Slip(
        {ADD: "x = x + self.ln_1(input)", LN_2: "x = y = self.ln_2(x)"},
        "add normalised tokens in both places",
        "Keep z and z' under their own names, and add those",
    ),
    Slip(
        {END: "return input + y"},
        "add the block's input z in both places, so that the attention only reaches the MLP",
        "At the end add z'",
    ),
    Slip({LN_2: "y = self.ln_1(x)"}, "use ln_1 in both places", "The MLP has its own norm, ln_2"),
    Slip({LN_1: "x = input"}, "leave out ln_1", "The attention takes LN(z)"),
    Slip({LN_2: "y = x"}, "leave out ln_2", "The MLP takes LN(z')"),
    Slip(
        {LN_1: "x = input", LN_2: "y = x"},
        "leave out both norms",
        "The attention takes LN(z), the MLP takes LN(z')",
    ),
    Slip(
        {TALK: "x, _ = self.self_attention(x, input, input, need_weights=False)"},
        "normalise the query only",
        "Query, key and value are all three LN(z)",
    ),
    Slip(
        {LN_2: "y = self.ln_2(input)"},
        "run attention and MLP side by side on z",
        "The MLP takes what the attention has already changed, z'",
    ),
    Slip(
        {
            LN_1: "x = z = input + self.mlp(self.ln_2(input))\n        x = self.ln_1(x)",
            ADD: "return x + z",
        },
        "run the MLP before the attention",
        "First talk, then think",
    ),
    Slip(
        {DROP: ""},
        "leave out self.dropout, or throw away what it gives",
        ("x = self.dropout(x) comes after the attention, before z is added"),
    ),
    Slip(
        {DROP: "", ADD: "x = self.dropout(x + input)"},
        "drop numbers of the sum, and with them the input",
        "Dropout comes before z is added",
    ),
    Slip(
        {LN_1: "x = self.dropout(self.ln_1(input))", DROP: ""},
        "drop numbers on the way into the attention",
        "Dropout comes after it, before z is added",
    ),
    Slip(
        {END: "return x + self.dropout(y)"},
        "apply a dropout to the MLP's output, too",
        "MyMLPBlock has its own dropout inside already",
    ),
    Slip(
        {DROP: "x = nn.functional.dropout(x, self.dropout.p)"},
        "drop numbers in eval mode too, or multiply them by 1 - dropout there",
        "An nn.Dropout made in __init__ knows the mode; F.dropout is told it,"
        " training=self.training",
    ),
    Slip(
        {
            ATTENTION: "MyMultiHeadAttention(hidden_dim, num_heads, dropout=dropout)",
            "self.dropout = nn.Dropout(dropout)": "self.dropout = nn.Dropout(attention_dropout)",
            "MyMLPBlock(hidden_dim, mlp_dim, dropout)": (
                "MyMLPBlock(hidden_dim, mlp_dim, attention_dropout)"
            ),
        },
        "exchange dropout and attention_dropout",
        "The attention gets attention_dropout; self.dropout and the MLP get dropout",
    ),
    Slip(
        {
            ATTENTION: "MyMultiHeadAttention(hidden_dim, num_heads, dropout=dropout)",
            "self.dropout = nn.Dropout(dropout)": "self.dropout = nn.Dropout(attention_dropout)",
        },
        "exchange dropout and attention_dropout in the attention's branch",
        "The attention gets attention_dropout, and self.dropout after it gets dropout",
    ),
    Slip(
        {"x = self.ln_1(input)": "x = self.ln_2(input)", "y = self.ln_2(x)": "y = self.ln_1(x)"},
        "exchange ln_1 and ln_2",
        "ln_1 stands before the attention, ln_2 before the MLP",
    ),
    Slip(
        {ATTENTION: "MyMultiHeadAttention(hidden_dim, num_heads)"},
        "do not hand attention_dropout on, or have an attention that ignores it",
        "The attention drops weights, too: dropout=attention_dropout. If that stands there,"
        " check.multi_head_attention tells more",
    ),
    Slip(
        {NORM_1: OWN_1},
        "make ln_1 yourself, so that another norm_layer changes ln_2 alone",
        "norm_layer makes every norm: norm_layer(hidden_dim)",
    ),
    Slip(
        {NORM_2: OWN_2},
        "make ln_2 yourself, so that another norm_layer changes ln_1 alone",
        "norm_layer makes every norm: norm_layer(hidden_dim)",
    ),
    Slip(
        {NORM_1: OWN_1, NORM_2: OWN_2},
        "make the norms yourself, so that another norm_layer changes nothing",
        "norm_layer makes every norm: norm_layer(hidden_dim)",
    ),
    Slip(
        {ATTENTION: ATTENTION.replace("num_heads", "2")},
        "make the attention with 2 heads whatever num_heads is",
        "Give it the argument num_heads",
    ),
    Slip(
        {ATTENTION: TORCHS.replace(", batch_first=True", "")},
        "give the attention pictures and tokens the wrong way round, as nn.MultiheadAttention does"
        " without batch_first=True",
        "Then tokens of different pictures talk to each other: it needs (n, seq_length,"
        " hidden_dim)",
    ),
    *(
        Slip(
            {TALK: TALK.replace("x, x, x", given)},
            f"give the attention tokens that are not normalised for {what}",
            "Query, key and value are all three LN(z)",
        )
        for given, what in (
            ("input, x, x", "the query"),
            ("x, input, x", "the key"),
            ("x, x, input", "the value"),
        )
    ),
    Slip(
        {END: "return y + self.ln_1(input)"},
        "add LN(z), the normalised tokens of the first half, to what the MLP gives",
        "Equation 3 ends with + z'",
    ),
    Slip(
        {LN_1: "x = self.ln_1(self.dropout(input))"},
        "drop numbers of the input before ln_1, too",
        "self.dropout comes once, after the attention",
    ),
    Slip(
        {LN_1: "x = self.dropout(self.ln_1(input))"},
        "drop numbers on the way into the attention, too",
        "self.dropout comes once, after the attention",
    ),
    Slip(
        {DROP: "x = self.dropout(self.dropout(x))"},
        "apply self.dropout twice",
        "It comes once, after the attention",
    ),
    *(
        Slip(
            {TALK: talk},
            "take the weights, the second of the pair, in place of the attention's output",
            "The output is the first: x, _ = self.self_attention(…)",
        )
        for talk in (
            "x = self.self_attention(x, x, x)[1]",
            "x = self.self_attention(x, x, x, need_weights=False)[1]",
        )
    ),
    Slip(
        {ADD: "x = x + x"},
        "add what the attention gives to itself, as where its name is the block's input's, too",
        "Keep the block's input under a name of its own, and add that",
    ),
    Slip(
        {END: "return y + y"},
        "add what the MLP gives to itself, as where its name is that of z', too",
        "Keep z' under a name of its own, and add that",
    ),
    Slip(
        {ADD: "x = x + x", END: "return y + y"},
        "add what each branch gives to itself, as where one name stands for all",
        "Keep what goes into a branch under a name of its own, and add that",
    ),
    Slip(
        {LN_2: "y = self.dropout(self.ln_2(x))"},
        "drop numbers on the way into the MLP, too",
        "self.dropout comes once, after the attention; the MLP has its own inside",
    ),
    Slip(
        {END: "return self.dropout(x + y)"},
        "drop numbers of the sum at the end, too",
        "self.dropout comes once, after the attention; the MLP has its own inside",
    ),
    Slip(
        {"norm_layer=partial(nn.LayerNorm, eps=1e-6)": "norm_layer=nn.LayerNorm"},
        "leave eps of the norms at PyTorch's usual 1e-5",
        "The default of norm_layer is partial(nn.LayerNorm, eps=1e-6)",
    ),
    Slip(
        {
            NORM_1: "self.ln_1 = nn.LayerNorm(hidden_dim)",
            NORM_2: "self.ln_2 = nn.LayerNorm(hidden_dim)",
        },
        "make the norms yourself, with PyTorch's usual eps, 1e-5",
        "norm_layer makes every norm: norm_layer(hidden_dim)",
    ),
    Slip({END: "return y - x"}, "subtract z' from what the MLP gives", "It is added"),
    Slip({ADD: "x = x - input"}, "subtract z from what the attention gives", "It is added"),
    Slip({END: "return x + x + y"}, "add z' twice at the end", "Equation 3 adds it once"),
    Slip(
        {END: "return self.ln_2(x + y)"},
        "apply ln_2 once more, to the sum at the end",
        "It stands before the MLP alone",
    ),
    Slip(
        {END: "return x"},
        "leave the MLP out, or throw away what it gives",
        "What it gives is added to z': x + y",
    ),
    Slip(
        {"self.dropout = nn.Dropout(dropout)": "self.dropout = nn.Dropout(attention_dropout)"},
        "give self.dropout the probability attention_dropout",
        "attention_dropout is for the attention alone: self.dropout gets dropout",
    ),
    Slip(
        {
            "MyMLPBlock(hidden_dim, mlp_dim, dropout)": (
                "MyMLPBlock(hidden_dim, mlp_dim, attention_dropout)"
            )
        },
        "give the MLP the probability attention_dropout",
        "attention_dropout is for the attention alone: the MLP gets dropout",
    ),
    Slip(
        {"MyMLPBlock(hidden_dim, mlp_dim, dropout)": "MyMLPBlock(hidden_dim, mlp_dim, 0.0)"},
        "do not hand dropout on to the MLP, or have an MLP that ignores it",
        "The MLP drops numbers, too: MyMLPBlock(hidden_dim, mlp_dim, dropout). If that stands"
        " there, check.mlp_block tells more",
    ),
    Slip(
        {
            "MyMLPBlock(hidden_dim, mlp_dim, dropout)": "MyMLPBlock(hidden_dim, mlp_dim, 0.0)",
            ATTENTION: "MyMultiHeadAttention(hidden_dim, num_heads)",
        },
        "hand dropout on neither to the MLP nor to the attention",
        "MyMLPBlock(hidden_dim, mlp_dim, dropout), and the attention gets attention_dropout",
    ),
    Slip(
        {
            DROP: "",
            "MyMLPBlock(hidden_dim, mlp_dim, dropout)": "MyMLPBlock(hidden_dim, mlp_dim, 0.0)",
        },
        "apply self.dropout nowhere, and do not hand dropout on to the MLP",
        "x = self.dropout(x) comes after the attention, and the MLP gets dropout, too",
    ),
    Slip(
        {ATTENTION: ATTENTION.replace("num_heads", "hidden_dim")},
        "make the attention with hidden_dim heads",
        "Give it the argument num_heads",
    ),
)

EXERCISE = Exercise(
    answer=MyEncoderBlock,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    tell=tell,
    hints=(
        (
            "Two halves, each: keep what came in, normalise it, send it through the part, add what"
            " you kept."
        ),
        (
            "First half: x = self.ln_1(input), then self.self_attention(x, x, x,"
            " need_weights=False), which gives a pair; take its first, apply self.dropout, add"
            " input. The second half is alike, with ln_2 and mlp."
        ),
    ),
    same=({ATTENTION: TORCHS}, {", need_weights=False": ""}, {ADD: "x += input"}),
    tolerance=1e-8,
)
