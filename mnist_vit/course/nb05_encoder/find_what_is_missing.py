"""Exercise: experiments that tell, from outside, what an encoder lacks."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import Encoder

from ..checking import Exercise, Mistake, Slip


def my_find_what_is_missing(encoder):
    """An encoder of 10 tokens of 16 numbers, fresh -> "nothing", or what is missing in it."""
    torch.manual_seed(0)
    x = torch.randn(2, 10, 16)
    y = encoder(x)
    other = x.clone()
    other[1] = torch.randn(10, 16)  # another second picture
    if not torch.allclose(encoder(other)[0], y[0], atol=1e-5):
        return "borders between pictures"
    other = x.clone()
    other[:, 3] = torch.randn(16)  # another token 3
    if torch.allclose(encoder(other)[:, 0], y[:, 0], atol=1e-5):
        return "attention"
    swapped = x.clone()
    swapped[:, [3, 7]] = x[:, [7, 3]]
    if torch.allclose(encoder(swapped)[:, 0], y[:, 0], atol=1e-5):
        return "positions"
    mean, std = y.mean(dim=-1), y.std(dim=-1, correction=0)
    if mean.abs().max() > 0.001 or (std - 1).abs().max() > 0.001:
        return "last norm"
    return "nothing"


class _A(Encoder):
    def forward(self, input: Tensor) -> Tensor:
        return self.ln(self.layers(self.dropout(input)))


class _B(Encoder):
    def forward(self, input: Tensor) -> Tensor:
        x = self.dropout(input + self.pos_embedding)
        for block in self.layers:
            x = x + block.mlp(block.ln_2(x))
        return self.ln(x)


class _C(Encoder):
    def forward(self, input: Tensor) -> Tensor:
        return self.layers(self.dropout(input + self.pos_embedding))


class _D(Encoder):
    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        for block in self.layers:
            block.self_attention.batch_first = False


NAMES = {
    "positions": _A,
    "attention": _B,
    "last norm": _C,
    "borders between pictures": _D,
    "nothing": Encoder,
}
ORDER = ("last norm", "nothing", "borders between pictures", "positions", "attention")


def encoders() -> dict[str, nn.Module]:
    """Five encoders by letter; at most one thing is missing in each."""
    return {
        letter: make(name, seed)
        for seed, (letter, name) in enumerate(zip("ABCDE", ORDER, strict=True))
    }


def make(name: str, seed: int) -> nn.Module:
    """A fresh encoder that lacks what ``name`` says. What is seen of its class is that it is an
    encoder."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return NAMES[name](10, 2, 2, 16, 32, 0.0, 0.0).eval()


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Ends at the first wrong answer: what is said of the later encoders may be another
    mistake's."""
    for seed in (0, 1):
        for name in NAMES:
            found = answer(make(name, seed))
            if found is not None and found is not ... and found not in list(NAMES):
                raise Mistake(f"the answer must be one of {', '.join(NAMES)}.")
            yield f"what is missing in {_WHICH.get(name, f'the encoder without {name}')}", found
            if found != name:
                return


_WHICH = {"nothing": "the whole encoder"}
PICTURES = "torch.allclose(encoder(other)[0], y[0], atol=1e-5)"
TALK = "torch.allclose(encoder(other)[:, 0], y[:, 0], atol=1e-5)"
SWAP, STD = (
    "torch.allclose(encoder(swapped)[:, 0], y[:, 0], atol=1e-5)",
    "y.std(dim=-1, correction=0)",
)
NORM = "mean.abs().max() > 0.001 or (std - 1).abs().max() > 0.001"

SLIPS = (
    Slip(
        {f"not {PICTURES}": "False"},
        "do not notice that a picture hears of the others",
        "Either you never look (without the borders each token listens to its own place in the"
        " other pictures, and the tokens of one picture do not talk, as if the attention were"
        " missing), or you add the same to all numbers of the other pictures, which the norm takes"
        " away. Put other random numbers into the second picture and look at the first",
    ),
    Slip(
        {TALK: "False"},
        "never look whether tokens talk",
        "Without attention token 0 does not notice either that two others change places. First"
        " change one token and look at another",
    ),
    Slip(
        {SWAP: "torch.equal(encoder(swapped)[:, 0], y[:, 0])"},
        "never find missing positions",
        "Let two tokens change places and look at a third, which must not notice. Compare with"
        " torch.allclose, since sums in another order are rounded in another way",
    ),
    Slip(
        {NORM: "False"},
        "never look at the size of the numbers",
        "What does a norm leave of mean and standard deviation?",
    ),
    Slip(
        {STD: "y.std(dim=-1)"},
        "divide by n − 1 in the standard deviation",
        "Layer norm divides by n, correction=0",
    ),
    Slip(
        {STD: "y.std(dim=-1)", SWAP: "False"},
        "divide by n − 1 in the standard deviation",
        "Layer norm divides by n, correction=0",
    ),
    Slip(
        {"other[:, 3] = torch.randn(16)": "other[:, 3] += 1"},
        'call an encoder without positions "attention"',
        "Its tokens do talk: put other random numbers into one and look at another. What is added"
        " alike to all numbers of a token is taken away by the norm, and nobody hears of it",
    ),
    Slip(
        {'return "last norm"': 'return "attention"'},
        'call an encoder without its last norm "attention"',
        "Its tokens do talk, if they are random: of tokens whose numbers are all equal, such as"
        " zeros, the norms inside leave nothing",
    ),
    *(
        Slip(
            {'return "nothing"': f'return "{name}"'},
            "find something missing in a whole encoder",
            "Where it passes all four experiments, with differences that are large beside 1e-5, the"
            ' answer is "nothing"',
        )
        for name in ("attention", "positions")
    ),
)

EXERCISE = Exercise(
    answer=my_find_what_is_missing,
    compare=compare,
    stars=3,
    slips=SLIPS,
    hints=(
        (
            "For each part ask: what could a whole encoder never do? Without positions two tokens"
            " can change places, and a third will not notice. Find such a question for the other"
            " three."
        ),
        (
            "Change the second picture: does the first one's output change? Change token 3: does"
            " token 0 change? Exchange tokens 3 and 7: does token 0 change? Is the mean of each"
            " token 0 and its standard deviation 1? The order of the questions matters, and"
            " torch.allclose(…, atol=1e-5) forgives rounding."
        ),
    ),
    same=(
        {
            SWAP: (
                "torch.allclose(*encoder(x[:, :1].expand(2, 10, 16))[:, [3, 7]].unbind(1),"
                " atol=1e-5)"
            )
        },
    ),
)
