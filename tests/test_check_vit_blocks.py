"""``check.vit`` on blocks of other parts: they are set aside, and all else is compared."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from published_vits import Lucid, Plain, plain
from torch import nn

from mnist_vit.course.whole_vit import judge_vit

NOT_COMPARED = "MLPs are not compared."
NO_OTHER = "In what was compared, no other difference was found."
PUT_RIGHT = "- you "


class Fused(nn.Module):
    """A gated MLP whose gate and value are one matrix."""

    def __init__(self, d, m):
        super().__init__()
        self.both = nn.Linear(d, 2 * m)
        self.out = nn.Linear(m, d)

    def forward(self, x):
        gate, value = self.both(x).chunk(2, dim=-1)
        return self.out(F.silu(gate) * value)


class Gated(nn.Module):
    """A gated MLP of three matrices, of which the last two look like an ordinary one."""

    def __init__(self, d, m):
        super().__init__()
        self.w1 = nn.Linear(d, m)
        self.w2 = nn.Linear(d, m)
        self.w3 = nn.Linear(m, d)

    def forward(self, x):
        return self.w3(F.silu(self.w1(x)) * self.w2(x))


class Convolved(nn.Module):
    def __init__(self, d, m):
        super().__init__()
        self.widen = nn.Conv1d(d, m, 1)
        self.narrow = nn.Conv1d(m, d, 1)

    def forward(self, x):
        return self.narrow(F.gelu(self.widen(x.mT))).mT


class AddsItsInput(Fused):
    def forward(self, x):
        return x + super().forward(x)


def of_three(d, m):
    return nn.Sequential(nn.Linear(d, m), nn.GELU(), nn.Linear(m, m), nn.GELU(), nn.Linear(m, d))


def of_one(d, m):
    return nn.Sequential(nn.Linear(d, d), nn.GELU())


MLPS = {
    "fused": Fused,
    "gated": Gated,
    "convolutions": Convolved,
    "three layers": of_three,
    "one layer": of_one,
}


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def weigh(self, q, k):
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
        return self.proj((self.weigh(q, k) @ v).transpose(1, 2).flatten(2))


class Biased(Attention):
    def weigh(self, q, k):
        return (q @ k.mT / (self.h * q.shape[-1]) ** 0.5).softmax(dim=-1)


def with_mlp(mlp, attention=Attention, **pieces):
    """A model whose blocks have this MLP, and attention in a module, or in themselves (None)."""

    def block(self, d, h, m):
        parts = Plain.block(self, d, h, m)
        del parts["fc1"], parts["fc2"]
        if attention is not None:
            del parts["qkv"], parts["proj"]
            parts["attention"] = attention(d, h)
        return parts | {"mlp": mlp(d, m)}

    def layer(self, b, x):
        taken = b.norm1(x)
        x = x + (b.attention(taken) if attention else self.attend(b, taken))
        return x + b.mlp(b.norm2(x))

    return plain(**{"block": block, "layer": layer} | pieces)


def said_of(answer):
    passed, lines = judge_vit(answer)
    assert not passed
    return "\n".join(lines)


@pytest.mark.parametrize("attention", [Attention, None], ids=["a module", "in the block"])
@pytest.mark.parametrize("name", MLPS)
def test_such_mlps_are_set_aside_and_all_else_agrees(name: str, attention: type | None) -> None:
    said = said_of(with_mlp(MLPS[name], attention))
    assert NOT_COMPARED in said
    assert "blocks.0.mlp." in said
    assert NO_OTHER in said
    assert PUT_RIGHT not in said
    assert "lacks" not in said


def post_norm(self, b, x):
    x = b.norm1(x + b.attention(x))
    return b.norm2(x + b.mlp(x))


def without_second_residual(self, b, x):
    x = x + b.attention(b.norm1(x))
    return b.mlp(b.norm2(x))


def side_by_side(self, b, x):
    return x + b.attention(b.norm1(x)) + b.mlp(b.norm2(x))


def with_normalised_tokens(self, b, x):
    x = x + b.attention(b.norm1(x))
    x = b.norm2(x)
    return x + b.mlp(x)


MISTAKES = {
    "eps": ({"last": nn.LayerNorm}, "leave LayerNorm's eps at torch's default"),
    "scores": ({"attention": Biased}, "divide the scores by √hidden_dim"),
    "post-norm": ({"layer": post_norm}, "normalise after adding (post-norm"),
    "residual": ({"layer": without_second_residual}, "leave out the second residual connection"),
    "order": ({"layer": side_by_side}, "run attention and MLP side by side."),
    "tokens": ({"layer": with_normalised_tokens}, "add normalised tokens to what the MLP gives"),
    "mean": ({"pool": lambda self, x: x.mean(1)}, "pass to the heads the mean over all tokens"),
}


@pytest.mark.parametrize("mlp", ["fused", "one layer"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_around_such_mlps_are_told_and_no_others(name: str, mlp: str) -> None:
    pieces, did = MISTAKES[name]
    said = said_of(with_mlp(MLPS[mlp], **pieces))
    assert NOT_COMPARED in said
    assert f"{PUT_RIGHT}{did}" in said
    assert said.count(PUT_RIGHT) == 1
    assert NO_OTHER in said


class Turned(Attention):
    """Queries and keys are turned by a table that is learned by nobody."""

    def __init__(self, d, h):
        super().__init__(d, h)
        self.register_buffer("table", torch.eye(d // h).roll(1, 0))

    def weigh(self, q, k):
        return super().weigh(q, k @ self.table)


def test_a_table_in_the_attention_hides_no_such_mlps() -> None:
    said = said_of(with_mlp(Fused, Turned))
    assert NOT_COMPARED in said
    assert "the first value that differs is the softmax of the scores" in said


class LucidGated(Lucid):
    """The norm stands in the MLP, and blocks are lists."""

    def block(self, d, h, m):
        return Lucid.block(self, d, h, m) | {"1": nn.Sequential(self.last(d), Fused(d, m))}


def test_a_norm_within_such_an_mlp_is_compared() -> None:
    said = said_of(LucidGated)
    assert NO_OTHER in said
    assert PUT_RIGHT not in said
    other = type("OtherEps", (LucidGated,), {"last": staticmethod(partial(nn.LayerNorm, eps=1e-3))})
    assert "eps to 0.001" in said_of(other)


def test_what_adds_its_input_is_no_mlp_alone() -> None:
    said = said_of(with_mlp(AddsItsInput))
    assert "They are not compared any further." in said
    assert PUT_RIGHT not in said


def test_matrices_side_by_side_with_those_of_attention_are_refused() -> None:
    class Side(Plain):
        def block(self, d, h, m):
            return Plain.block(self, d, h, m) | {"fc1": nn.Linear(d, 2 * m)}

        def layer(self, b, x):
            x = x + self.attend(b, b.norm1(x))
            gate, value = b.fc1(b.norm2(x)).chunk(2, dim=-1)
            return x + b.fc2(F.silu(gate) * value)

    assert "They are not compared any further." in said_of(Side)


class Experts(nn.Module):
    """Each token goes to one of three MLPs; what the gate gives comes back, too."""

    def __init__(self, d, m):
        super().__init__()
        self.gate = nn.Linear(d, 3)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, m), nn.GELU(), nn.Linear(m, d)) for _ in range(3)
        )

    def forward(self, x):
        gate = self.gate(x)
        chosen = gate.argmax(dim=-1)
        given = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            here = chosen == number
            if here.any():
                given[here] = expert(x[here])
        return given, gate


def with_experts(self, b, x):
    x = x + b.attention(b.norm1(x))
    given, _ = b.mlp(b.norm2(x))
    return x + given


def test_experts_that_give_several_results_are_set_aside() -> None:
    said = said_of(with_mlp(Experts, layer=with_experts))
    assert NOT_COMPARED in said
    assert NO_OTHER in said
    assert PUT_RIGHT not in said
    assert "lacks" not in said


def test_a_low_rank_projection_is_no_mlp() -> None:
    def block(self, d, h, m):
        low_rank = nn.Sequential(nn.Linear(d, 5), nn.Linear(5, d))
        return Plain.block(self, d, h, m) | {"proj": low_rank}

    assert NOT_COMPARED not in said_of(plain(block=block))


class OnTheGrid(nn.Module):
    """Convolutions of one place, which make no patches, though the patches are made by a matrix."""

    def __init__(self, d, m):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(d, m, 1), nn.GELU(), nn.Conv2d(m, d, 1))

    def forward(self, x):
        return self.layers(x.mT[..., None]).squeeze(-1).mT


class LucidOnTheGrid(Lucid):
    def block(self, d, h, m):
        return Lucid.block(self, d, h, m) | {"1": nn.Sequential(self.last(d), OnTheGrid(d, m))}


def test_a_convolution_in_an_mlp_makes_no_patches() -> None:
    model = LucidOnTheGrid(
        image_size=20, patch_size=4, num_classes=5, dim=24, depth=2, heads=3, mlp_dim=48
    )
    said = said_of(model)
    assert NOT_COMPARED in said
    assert NO_OTHER in said
    assert "conv_proj" in said


class RawBlock(nn.Module):
    """The matrices of the attention are parameters of the block itself."""

    def __init__(self, d, h, mlp):
        super().__init__()
        self.h = h
        self.norm1 = nn.LayerNorm(d, eps=1e-6)
        self.norm2 = nn.LayerNorm(d, eps=1e-6)
        self.mlp = mlp
        for name in ("wq", "wk", "wv", "wo"):
            setattr(self, name, nn.Parameter(torch.randn(d, d)))

    def forward(self, x):
        taken = self.norm1(x)
        made = [taken @ matrix for matrix in (self.wq, self.wk, self.wv)]
        split = [one.unflatten(-1, (self.h, -1)).transpose(1, 2) for one in made]
        mixed = F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
        x = x + mixed @ self.wo
        return x + self.mlp(self.norm2(x))


def of_two(d, m):
    return nn.Sequential(nn.Linear(d, m), nn.GELU(), nn.Linear(m, d))


@pytest.mark.parametrize("mlp", [of_two, Fused, of_three])
def test_matrices_that_are_parameters_of_the_block_are_attention(mlp) -> None:
    def stack(self, n, d, h, m):
        return nn.ModuleList(RawBlock(d, h, mlp(d, m)) for _ in range(n))

    said = said_of(plain(stack=stack, layer=lambda self, b, x: b(x)))
    assert (NOT_COMPARED in said) == (mlp is not of_two)
    assert "in_proj_bias" in said
    assert PUT_RIGHT not in said
    assert "differs" not in said


def attention_alone(self, b, x):
    return x + self.attend(b, b.norm1(x))


def test_blocks_without_mlps_are_told_with_all_else() -> None:
    def block(self, d, h, m):
        parts = Plain.block(self, d, h, m)
        return {name: parts[name] for name in ("norm1", "qkv", "proj")}

    said = said_of(plain(block=block, layer=attention_alone, weigh=Wide.weigh))
    assert "- have no MLP in the blocks." in said
    assert "- divide the scores by √hidden_dim." in said
    assert said.count("\n- ") == 2


class Wide(Plain):
    def weigh(self, q, k):
        return (q @ k.mT / (self.num_heads * q.shape[-1]) ** 0.5).softmax(dim=-1)


def after_one_norm(self, b, x):
    taken = b.norm1(x)
    return x + self.attend(b, taken) + b.fc2(self.act(b.fc1(taken)))


def test_side_by_side_after_one_norm_throws_nothing_away() -> None:
    def block(self, *sizes):
        parts = Plain.block(self, *sizes)
        del parts["norm2"]
        return parts

    for pieces in ({}, {"block": block}):
        said = said_of(plain(layer=after_one_norm, **pieces))
        assert "run attention and MLP side by side, after one norm" in said
        assert "throw away" not in said


class Channels(Plain):
    """Attention between the numbers of a head: as many rows of scores as a head has numbers."""

    def attend(self, b, x):
        q, k, v = self.split(b, x)
        weights = (q.mT @ k / k.shape[-2] ** 0.5).softmax(dim=-1)
        return b.proj(self.merge(v @ weights.mT))


def test_scores_of_channels_are_no_tokens() -> None:
    said = said_of(Channels)
    assert "Its blocks have" not in said
    assert "The first value that differs is the input of block 0's ln_2" in said


class WholeHeads(nn.Module):
    """Three heads, each as wide as the tokens: queries, keys and values are like a qkv matrix."""

    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.key = nn.Linear(d, h * d)
        self.query = nn.Linear(d, h * d)
        self.value = nn.Linear(d, h * d)
        self.proj = nn.Linear(h * d, d)

    def forward(self, x):
        split = [
            layer(x).unflatten(-1, (self.h, -1)) for layer in (self.query, self.key, self.value)
        ]
        mixed = F.scaled_dot_product_attention(*[one.transpose(1, 2) for one in split])
        return self.proj(mixed.transpose(1, 2).flatten(2))


def test_three_whole_heads_are_attention_of_another_width() -> None:
    def block(self, d, h, m):
        parts = Plain.block(self, d, h, m)
        del parts["qkv"], parts["proj"]
        return parts | {"attention": WholeHeads(d, h)}

    said = said_of(plain(block=block, attend=lambda self, b, x: b.attention(x)))
    assert "Its attention is num_heads * head_dim = 72 wide, and ours hidden_dim = 24" in said
    assert NO_OTHER in said
    assert "lacks" not in said


class Reused(Plain):
    """One block runs again and again, with one norm in both places."""

    def stack(self, n, *sizes):
        self.times = n
        return super().stack(1, *sizes)

    def encode(self, x):
        for _ in range(self.times):
            x = self.layer(self.blocks[0], x)
        return self.norm(x)

    def layer(self, b, x):
        x = x + self.attend(b, b.norm1(x))
        return x + b.fc2(self.act(b.fc1(b.norm1(x))))


def test_one_norm_of_a_block_that_is_reused_is_told() -> None:
    said = said_of(Reused)
    assert "- reuse one block, the same parameters in each layer." in said
    assert "- use ln_1 in both places." in said
    assert said.count("\n- ") == 2


class SharedNorms(Plain):
    """All blocks use the same two norms, whose names end in numbers as those of blocks do."""

    def __init__(self, image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, **more):
        sizes = (image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim)
        super().__init__(*sizes, **more)
        self.n1 = nn.LayerNorm(hidden_dim)
        self.n2 = nn.LayerNorm(hidden_dim)

    def layer(self, b, x):
        x = x + self.attend(b, self.n1(x))
        return x + b.fc2(self.act(b.fc1(self.n2(x))))

    def block(self, *sizes):
        parts = Plain.block(self, *sizes)
        del parts["norm1"], parts["norm2"]
        return parts


def test_norms_that_all_blocks_use_belong_to_none_of_them() -> None:
    said = said_of(SharedNorms)
    assert "n1 (LayerNorm) may stand in place of block 0's ln_1" in said
    assert "differs" not in said
    assert "eps" not in said
