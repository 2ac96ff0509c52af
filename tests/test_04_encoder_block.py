"""Notebook 04's checks accept right answers in other styles, and reject mistakes that no slip
knows."""

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import judged, reject
from torch import Tensor, nn
from torchvision.models.vision_transformer import EncoderBlock as TorchvisionBlock

from mnist_vit.check import EXERCISES
from mnist_vit.course.checking import verdict
from mnist_vit.course.nb04_encoder_block.find_bugs import BLOCKS
from mnist_vit.model import EncoderBlock, MultiHeadAttention

FINE_NORM = partial(nn.LayerNorm, eps=1e-6)


class Functional(EncoderBlock):
    """Parts by their formulas, in place where that is allowed."""

    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.self_attention(query=x, key=x, value=x)[0]
        x = F.dropout(x, self.dropout.p, self.training)
        x += input
        y = self.ln_2(x)
        y = F.gelu(F.linear(y, self.mlp[0].weight, self.mlp[0].bias))
        y = F.dropout(y, self.dropout.p, self.training)
        y = F.linear(y, self.mlp[3].weight, self.mlp[3].bias)
        return F.dropout(y, self.dropout.p, self.training) + x


class FromScratch(nn.Module):
    """Own attention, and an MLP that is a plain Sequential."""

    def __init__(
        self,
        heads: int,
        width: int,
        wide: int,
        p: float,
        attention_p: float,
        norm: Callable = FINE_NORM,
    ) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, wide), nn.GELU(), nn.Dropout(p), nn.Linear(wide, width), nn.Dropout(p)
        )
        for number in (0, 3):
            nn.init.xavier_uniform_(self.mlp[number].weight)
        self.ln_2 = norm(width)
        self.ln_1 = norm(width)
        self.self_attention = MultiHeadAttention(width, heads, attention_p)
        self.dropout = nn.Dropout(p)

    def forward(self, a: Tensor) -> Tensor:
        b = self.ln_1(a)
        c, _ = self.self_attention(b, b, b)
        d = a + self.dropout(c)
        return d + self.mlp(self.ln_2(d))


def with_var_mean(tokens: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    variance, mean = torch.var_mean(tokens, dim=-1, unbiased=False)
    return torch.addcmul(
        beta, (tokens - mean[..., None]) / torch.sqrt(variance[..., None] + epsilon), gamma
    )


def by_copy(part: nn.Module) -> nn.Module:
    part = copy.deepcopy(part)
    part.mlp[3].weight = nn.Parameter(torch.zeros(6, 10))
    part.mlp[3].bias = nn.Parameter(torch.zeros(6))
    part.self_attention.out_proj.weight = nn.Parameter(torch.zeros(6, 6))
    part.self_attention.out_proj.bias = nn.Parameter(torch.zeros(6))
    return part


class OnTheWay(EncoderBlock):
    """Each branch is a step of its own."""

    def forward(self, z: Tensor) -> Tensor:
        for norm, part in ((self.ln_1, self.talk), (self.ln_2, self.mlp)):
            z = z + part(norm(z))
        return z

    def talk(self, x: Tensor) -> Tensor:
        return self.dropout(self.self_attention(x, x, x)[0])


class FirstNormBehind(EncoderBlock):
    def forward(self, z: Tensor) -> Tensor:
        z = self.ln_1(z + self.dropout(self.self_attention(z, z, z)[0]))
        return z + self.mlp(self.ln_2(z))


class SecondNormBehind(EncoderBlock):
    def forward(self, z: Tensor) -> Tensor:
        x = self.ln_1(z)
        z = z + self.dropout(self.self_attention(x, x, x)[0])
        return self.ln_2(z + self.mlp(z))


class WritesOverItsInput(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.dropout(self.self_attention(x, x, x, need_weights=False)[0])
        with torch.no_grad():
            input.copy_(x + input)
        return input + self.mlp(self.ln_2(input))


def by_hand(block: type) -> tuple[type, type]:
    """Both blocks as subclasses; the norms are still there, and are not called."""

    class NoNorm(block):
        def forward(self, a: Tensor) -> Tensor:
            a = a + self.dropout(self.self_attention(a, a, a)[0])
            return a + self.mlp(a)

    class NoResidual(block):
        def forward(self, a: Tensor) -> Tensor:
            b = self.ln_1(a)
            return self.mlp(self.ln_2(self.dropout(self.self_attention(b, b, b)[0])))

    return NoNorm, NoResidual


def by_functions(block: type) -> list[Callable]:
    """One function builds and takes out; the other keeps forward, and subtracts what it added."""

    def no_norm(*sizes: Any) -> nn.Module:
        made = block(*sizes)
        made.ln_1 = made.ln_2 = nn.Identity()
        return made

    def no_residual(*sizes: Any) -> nn.Module:
        made = block(*sizes)

        def forward(z: Tensor) -> Tensor:
            x = made.ln_1(z)
            return made.mlp(made.ln_2(made.dropout(made.self_attention(x, x, x)[0])))

        made.forward = forward
        return made

    return [no_norm, no_residual]


def without_return(block: type) -> list[Callable]:
    class Silent(block):
        def forward(self, a: Tensor) -> None:
            super().forward(a)

    return [by_functions(block)[0], Silent]


class PairAddedFirst(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.self_attention(x, x, x) + input
        return x + self.mlp(self.ln_2(x))


def zeroing(*beginnings: str) -> Callable[[nn.Module], None]:
    def silence(part: nn.Module) -> None:
        for name, parameter in part.named_parameters():
            if name.startswith(beginnings):
                nn.init.zeros_(parameter)

    return silence


def without_layers(part: nn.Module) -> None:
    part.self_attention.out_proj = nn.Identity()


class NormNotMade(EncoderBlock):
    """What makes a norm stands in the place of the norm."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        del self.ln_1
        self.ln_1 = FINE_NORM


class OtherName(EncoderBlock):
    """ln_1 is called norm1."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.norm1 = self.ln_1
        del self.ln_1


class UsualEps(EncoderBlock):
    """Another default of norm_layer."""

    def __init__(self, *sizes: Any, norm_layer: Any = nn.LayerNorm) -> None:
        norm = sizes[5] if len(sizes) > 5 else norm_layer
        super().__init__(*sizes[:5], norm)


class OneName(EncoderBlock):
    """Everything is called x."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x)
        x = self.dropout(self.self_attention(x, x, x)[0])
        x = x + x
        x = self.mlp(self.ln_2(x))
        return x + x


class TakesWeights(EncoderBlock):
    """The second of the pair."""

    def forward(self, z: Tensor) -> Tensor:
        x = self.ln_1(z)
        x = self.self_attention(x, x, x)[1]
        x = self.dropout(x)
        z = x + z
        return z + self.mlp(self.ln_2(z))


class DropsTheInput(EncoderBlock):
    """Numbers are dropped before the norm, too, which dropout 1 behind it hides."""

    def forward(self, z: Tensor) -> Tensor:
        x = self.ln_1(self.dropout(z))
        x = self.dropout(self.self_attention(x, x, x)[0])
        z = x + z
        return z + self.mlp(self.ln_2(z))


def with_sizes_of_its_own(block: Any) -> Any:
    return lambda *sizes: block(2, 64, 256, 0.0, 0.0, nn.Identity), block


def without_last_bias(part: nn.Module) -> None:
    zeroing("self_attention.out_proj.weight", "self_attention.out_proj.bias", "mlp.3.weight")(part)
    part.mlp[3].bias = None


def with_another_forward(part: nn.Module) -> None:
    part.forward = lambda z: z


def nearly_silent(part: nn.Module) -> None:
    for layer in (part.self_attention.out_proj, part.mlp[3]):
        layer.weight.data *= 0.01
        layer.bias.data *= 0.01


class KeptMLP(nn.ModuleDict):
    """A learner's own: no nn.Dropout in it, and a default."""

    def __init__(self, width: int, wide: int, dropout: float = 0.0) -> None:
        super().__init__({"0": nn.Linear(width, wide), "3": nn.Linear(wide, width)})
        for name in ("0", "3"):
            nn.init.xavier_uniform_(self[name].weight)
            nn.init.normal_(self[name].bias, std=1e-6)
        self.p = dropout

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(F.gelu(self["0"](x)), self.p, self.training)
        return F.dropout(self["3"](x), self.p, self.training)


class DropsNothing(KeptMLP):
    def forward(self, x: Tensor) -> Tensor:
        return self["3"](F.gelu(self["0"](x)))


class KeptAttention(MultiHeadAttention):
    """A learner's own, with a default, as that of notebook 03."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__(width, heads, dropout)


class OfKeptParts(EncoderBlock):
    def __init__(
        self,
        heads: int,
        width: int,
        wide: int,
        p: float = 0.0,
        attention_p: float = 0.0,
        norm: Callable = FINE_NORM,
    ) -> None:
        super().__init__(heads, width, wide, p, attention_p, norm)
        self.self_attention = KeptAttention(width, heads, attention_p)
        self.mlp = KeptMLP(width, wide, p)


class MLPWithoutDropout(OfKeptParts):
    def __init__(self, heads: int, width: int, wide: int, *options: Any) -> None:
        super().__init__(heads, width, wide, *options)
        self.mlp = KeptMLP(width, wide)


class AttentionWithoutDropout(OfKeptParts):
    def __init__(self, heads: int, width: int, wide: int, *options: Any) -> None:
        super().__init__(heads, width, wide, *options)
        self.self_attention = KeptAttention(width, heads)


class DropsOneHalf(OfKeptParts):
    def __init__(self, heads: int, width: int, wide: int, *options: Any) -> None:
        super().__init__(heads, width, wide, *options)
        self.dropout = nn.Dropout()


class OfABrokenPart(DropsOneHalf):
    """self.dropout is right, the norm is not its own; the MLP that was kept drops nothing."""

    def __init__(self, heads: int, width: int, wide: int, p: float = 0.0, *options: Any) -> None:
        super().__init__(heads, width, wide, p, *options)
        self.dropout = nn.Dropout(p)
        self.mlp = DropsNothing(width, wide, p)
        self.ln_2 = FINE_NORM(width)


def with_one_number(part: nn.Module) -> None:
    part.self_attention.out_proj.weight = nn.Parameter(torch.zeros(1))


def in_a_dictionary(part: nn.Module) -> nn.Module:
    state = part.state_dict()
    for name in state:
        state[name] = torch.zeros_like(state[name])
    return part


def by_its_signature(block: type[nn.Module]) -> tuple[Any, Any]:
    """Reads the dropout probability from the class's own signature."""

    class NoResidual(block):  # type: ignore[misc,valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            given = inspect.signature(block).bind(*args, **options)
            self.p = given.arguments["dropout"]

        def forward(self, input: Tensor) -> Tensor:
            x = self.ln_1(input)
            x = self.self_attention(x, x, x)[0]
            return self.mlp(self.ln_2(F.dropout(x, self.p, self.training)))

    return partial(block, norm_layer=nn.Identity), NoResidual


RIGHT: list[tuple[str, Any]] = [
    ("ablation", by_its_signature),
    ("encoder_block", Functional),
    ("encoder_block", OfKeptParts),
    ("encoder_block", FromScratch),
    ("encoder_block", TorchvisionBlock),
    ("layer_norm", with_var_mean),
    ("encoder_block", OnTheWay),
    ("ablation", by_hand),
    ("ablation", by_functions),
    ("find_bugs", {"d": 4, "c": 1, "b": 3, "a": 5}),
    ("silence", by_copy),
]
EARLY = (
    "self_attention.in_proj",
    "mlp.0",
)  # silent early layers: then the last ones still add their biases
FEWEST = " tensors changed, and four are enough. Which layer of each branch has the last word?"


class HeadsFirst(EncoderBlock):
    """Its attention is given num_heads and hidden_dim the wrong way round, and does not object."""

    def __init__(self, num_heads: int, *sizes: Any) -> None:
        super().__init__(num_heads, *sizes)
        self.self_attention = nn.MultiheadAttention(num_heads, 1, batch_first=True)


WRONG: list[tuple[str, Any, str]] = [
    ("encoder_block", HeadsFirst, "take embed_dim first, and then num_heads"),
    ("encoder_block", PairAddedFirst, "returns a pair"),
    ("encoder_block", DropsOneHalf, "your self.dropout drops with the probability 0.5"),
    (
        "encoder_block",
        OfABrokenPart,
        "class DropsNothing that stands in it does not pass its own check, and may be at fault",
    ),
    (
        "layer_norm",
        lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, eps),
        "the exercise in one call",
    ),
    (
        "layer_norm",
        lambda x, w, b, eps: nn.LayerNorm(3, eps).double()(x) * w + b,
        "the exercise in one call",
    ),
    ("layer_norm", lambda x, w, b, eps: with_var_mean(x, w, b, 3 * eps), "variance, once, before"),
    ("encoder_block", WritesOverItsInput, ""),
    ("ablation", lambda block: block, "two classes are needed"),
    ("ablation", without_return, "without residual connections gives nothing. Does it end with"),
    (
        "layer_norm",
        lambda x, w, b, eps: with_var_mean(x, w, 3 * b, eps),
        "With a bias of zero your result is right",
    ),
    (
        "layer_norm",
        lambda x, w, b, eps: with_var_mean(x, w * w, b, eps),
        "With a weight of ones and a bias of zeros your result is right.",
    ),
    ("encoder_block", OtherName, "norm1.weight. The names must be those in the notebook."),
    ("find_bugs", lambda: dict.fromkeys("abcd", 0), "They count from 1 to 8"),
    (
        "ablation",
        lambda block: (block(2, 6, 10, 0.0, 0.0), block(2, 6, 10, 0.0, 0.0)),
        "holds a block that is made already",
    ),
    ("ablation", lambda block: (block, block), ""),
    (
        "ablation",
        lambda block: (partial(block, norm_layer=nn.Identity()), block),
        "not nn.Identity()",
    ),
    ("find_bugs", lambda: {"a": 5, "b": 3}, '"c" is missing'),
    ("find_bugs", {"a": 4, "b": 2, "c": 0, "d": 3}, '"c" has the sentence 0, and no sentence'),
    ("find_bugs", {"a": "5", "b": 3, "c": 1, "d": 4}, "a text stands at a, and the number"),
    ("find_bugs", {5: "a", 3: "b", 1: "c", 4: "d"}, 'Your 5: "a" becomes "a": 5.'),
    ("find_bugs", lambda: [5, 3, 1, 4], "a dictionary is needed"),
    ("find_bugs", lambda: dict.fromkeys("abcd", 6), "should not be 'number 6'. Sentence 6 is"),
    ("find_bugs", lambda: {"a": 5, "b": 3, "c": 5, "d": 4}, "block c"),
    ("find_bugs", {"a": 4, "b": 3, "c": 1, "d": 4}, "alone: in eval mode, give it two pictures, a"),
    ("find_bugs", {"a": 1, "b": 3, "c": 1, "d": 4}, "alone: in eval mode, change the parameters"),
    ("find_bugs", {"a": "5", "b": 3, "c": 1, "d": 4}, "a text stands at a, and the number of"),
    ("find_bugs", {"a": 4, "b": 2, "c": 0, "d": 3}, "has the sentence 0, and no sentence has"),
    ("find_bugs", {"A": 5, "B": 3, "C": 1, "D": 4}, "Your keys are 'A', 'B', 'C', 'D'."),
    ("find_bugs", {"a": 7, "b": 3, "c": 1, "d": 4}, "right whatever its weights are"),
    ("encoder_block", NormNotMade, "ln_1 is there, but it is a class or a function"),
    ("ablation", with_sizes_of_its_own, "must hand on the arguments"),
    ("silence", lambda part: None, "only give a name to another tensor"),
    ("silence", with_one_number, "self_attention.out_proj.weight has the shape (1,) now"),
    ("silence", in_a_dictionary, "What was given comes back as it was: no number in it was"),
    ("silence", without_last_bias, "mlp.3.bias is gone"),
    ("silence", without_layers, "2 of the block's tensors are gone, such as self_attention.out"),
    ("silence", with_another_forward, "none of its tensors has become zero"),
    ("silence", nearly_silent, "No tensor is zero everywhere. Changed are self_attention.out_proj"),
    ("silence", zeroing(""), "12" + FEWEST),
    ("silence", zeroing(*EARLY, "self_attention.out_proj.bias", "mlp.3.bias"), "6" + FEWEST),
]
NAMED: list[tuple[str, Any, str]] = [
    ("encoder_block", DropsTheInput, "drop numbers of the input before ln_1, too"),
    ("encoder_block", MLPWithoutDropout, "do not hand dropout on to the MLP, or have an MLP"),
    ("encoder_block", AttentionWithoutDropout, "do not hand attention_dropout on, or have an"),
    (
        "layer_norm",
        lambda x, w, b, eps: with_var_mean(x, 1 + w, b, eps),
        "multiply by 1 + weight",
    ),
    (
        "layer_norm",
        lambda x, w, b, eps: with_var_mean(x, w, b, 2 * eps),
        "add eps twice",
    ),
    (
        "layer_norm",
        lambda x, w, b, eps: (
            x - x.mean(-1, keepdim=True) / (x.var(-1, False, keepdim=True) + eps).sqrt() * w + b
        ),
        "leave out the brackets round x - mean",
    ),
    ("encoder_block", FirstNormBehind, "normalise after adding in the first half"),
    ("encoder_block", SecondNormBehind, "normalise after adding in the second half"),
    ("encoder_block", UsualEps, "PyTorch's usual 1e-5"),
    ("encoder_block", OneName, "add what each branch gives to itself"),
    ("encoder_block", TakesWeights, "take the weights, the second of the pair"),
    ("ablation", lambda block: (partial(block, norm_layer=nn.Identity), block), "leave both"),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def test_keepdim_has_a_name() -> None:
    reject(
        "layer_norm",
        lambda x, w, b, eps: (x - x.mean(-1)) / x.std(-1) * w + b,
        "forget keepdim=True",
        named=True,
    )


def test_silent_early_layers_have_a_name_of_their_own() -> None:
    reject("silence", zeroing(*EARLY), "silence the first layer of each branch", named=True)


@pytest.mark.parametrize("letter", BLOCKS)
def test_broken_blocks_pass_the_first_test_and_no_other(letter: str) -> None:
    """One picture, start values, eval mode, the output alone: equal. Each differs where its
    sentence says."""
    torch.manual_seed(0)
    broken = BLOCKS[letter](2, 8, 16, 1.0, 0.0)
    torch.manual_seed(0)
    right = EncoderBlock(2, 8, 16, 1.0, 0.0)
    z = torch.randn(2, 5, 8)
    with torch.no_grad():
        assert torch.allclose(broken.eval()(z[:1].clone()), right.eval()(z[:1]), atol=1e-6)
        given = z.clone()
        broken(given)
        same = {
            "given": torch.equal(given, z),
            "batch": torch.allclose(broken(z.clone()), right(z), atol=1e-6),
        }
        same["train"] = torch.allclose(
            broken.train()(z[:1].clone()), right.train()(z[:1]), atol=1e-6
        )
        for part in (broken, right):
            part.eval().ln_1.weight.fill_(2.0)
        same["weights"] = torch.allclose(broken(z[:1].clone()), right(z[:1]), atol=1e-6)
    shows = {"a": "train", "b": "given", "c": "weights", "d": "batch"}[letter]
    assert [name for name, equal in same.items() if not equal] == [shows]


def test_each_picture_of_block_d_hears_of_each_other() -> None:
    """Whichever picture a test changes, and whichever other it looks at."""
    block = BLOCKS["d"](2, 8, 16, 0.0, 0.0).eval()
    z = torch.randn(3, 5, 8)
    with torch.no_grad():
        before = block(z)
        for changed in range(3):
            other = z.clone()
            other[changed] += torch.randn(5, 8)
            moved = (block(other) - before).abs().amax(dim=(1, 2))
            assert (moved > 1e-5).all()


class CommaAtTheEnd(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = (self.self_attention(x, x, x)[0],)
        return self.mlp(self.ln_2(self.dropout(x) + input))


def writing_into_the_given_class(block: type) -> tuple[Any, type]:
    def forward(self: nn.Module, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        return self.mlp(self.ln_2(self.dropout(self.self_attention(x, x, x)[0])))

    block.forward = forward
    return partial(block, norm_layer=nn.Identity), block


def layer_norm_by(centre: Callable, size: Callable) -> Callable:
    def norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        return centre(x) / (size(x) + eps).sqrt() * weight + bias

    return norm


def by_mean(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def by_median(x: Tensor) -> Tensor:
    return x - x.median(-1, keepdim=True)[0]


def variance(x: Tensor) -> Tensor:
    return x.var(-1, keepdim=True, correction=0)


def distance(x: Tensor) -> Tensor:
    return by_mean(x).abs().mean(-1, keepdim=True).square()


SAID: list[tuple[str, Any, str]] = [
    ("encoder_block", CommaAtTheEnd, "A comma at the end of a line makes a tuple"),
    (
        "ablation",
        lambda block: (partial(block, norm_layer=nn.Identity), lambda *sizes: None),
        "not make an nn.Module; what comes is",
    ),
    (
        "ablation",
        lambda block: (partial(block, norm_layer=lambda width: width), block),
        "a norm of the block without norms is a number",
    ),
    (
        "layer_norm",
        layer_norm_by(by_mean, distance),
        "the mean 0, as it should, but its mean square",
    ),
    ("layer_norm", layer_norm_by(by_median, distance), "should have 0. Its mean square is"),
    (
        "layer_norm",
        layer_norm_by(by_median, lambda x: by_median(x).square().mean(-1, keepdim=True)),
        "and should have 0.",
    ),
]
SLIPS = [
    (
        "ablation",
        writing_into_the_given_class,
        "take the residual connections out of your variant without norms, too",
    )
]
test_sentences = judged([], SAID, SLIPS)


def of_our_class(block: type) -> tuple[Any, type]:
    """Variants of the package's block, whatever class is given."""

    class NoResidual(EncoderBlock):
        def forward(self, input: Tensor) -> Tensor:
            x = self.ln_1(input)
            x = self.dropout(self.self_attention(x, x, x)[0])
            return self.mlp(self.ln_2(x))

    return partial(EncoderBlock, norm_layer=nn.Identity), NoResidual


def squeezed(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    x = x.squeeze()
    centred = x - x.mean(-1, keepdim=True)
    size = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    return centred / size * weight + bias


def of_64(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred = x - x.sum(-1, keepdim=True) / 64
    size = (centred.square().sum(-1, keepdim=True) / 64 + eps).sqrt()
    return centred / size * weight + bias


def next_to_nothing(part: nn.Module) -> None:
    for layer in (part.self_attention.out_proj, part.mlp[3]):
        nn.init.constant_(layer.weight, 1e-12)
        nn.init.constant_(layer.bias, 1e-12)


def zeros_by_name(part: nn.Module) -> dict[str, Tensor]:
    changed = {name: tensor.clone() for name, tensor in part.state_dict().items()}
    for name in changed:
        if name.startswith(("self_attention.out_proj", "mlp.3")):
            changed[name].zero_()
    return changed


test_what_further_inputs_show = judged(
    [],
    [
        ("ablation", of_our_class, "was given another block class here"),
        ("ablation", lambda block: {}, "two classes are needed, and what came back is of type"),
        ("layer_norm", squeezed, "output for one token of one picture must have shape (1, 1, 7)"),
        ("silence", lambda part: lambda z: z, "what came back is a function, and no block"),
        ("silence", zeros_by_name, "what came back is of type dict, and no block"),
        ("silence", next_to_nothing, "is not zero: it holds numbers up to 1e-12"),
    ],
    [("layer_norm", of_64, "divide by 64 in mean and variance")],
)


def with_the_division_last(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    root = (x.var(dim=-1, keepdim=True, correction=0) + eps).sqrt()
    return ((x - x.mean(dim=-1, keepdim=True)) * weight + bias) / root


test_a_bias_that_is_divided_is_told_as_that = judged(
    [],
    [
        (
            "layer_norm",
            with_the_division_last,
            "what it adds is not the same in all tokens. Add bias last, once: after the division",
        ),
        (
            "layer_norm",
            lambda x, w, b, eps: with_var_mean(x, w, 3 * b, eps),
            "With a bias of zero your result is right. Add bias last, once",
        ),
    ],
)


@pytest.mark.parametrize("number", [2, 7, 8])
def test_eps_is_spoken_of_where_eps_was_chosen(number: int) -> None:
    found = {"a": 5, "b": 3, "c": number, "d": 4}
    told = verdict(EXERCISES["find_bugs"], lambda: found)[1]
    assert "change the parameters of ln_2 alone" in told
    assert ("Another eps" in told) == (number == 7)
