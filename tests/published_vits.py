"""A plain Vision Transformer whose pieces can be swapped, and right ones in other styles: for
test_check_vit.py."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn


class Plain(nn.Module):
    """As in timm. What a block is made of is a dict; each method is a piece that a subclass or
    ``plain`` may swap."""

    def __init__(
        self,
        image_size,
        patch_size,
        num_layers,
        num_heads,
        hidden_dim,
        mlp_dim,
        num_classes=1000,
        **more,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (hidden_dim // num_heads) ** -0.5
        self.p = patch_size
        self.cls_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        self.pos_embed = self.positions((image_size // patch_size) ** 2 + 1, hidden_dim)
        self.patch_embed = self.embed(hidden_dim, patch_size)
        self.blocks = self.stack(num_layers, hidden_dim, num_heads, mlp_dim)
        self.norm = self.last(hidden_dim)
        rep = more.get("representation_size")
        self.pre_logits = (
            nn.Sequential(nn.Linear(hidden_dim, rep), self.squash()) if rep else nn.Identity()
        )
        self.head = self.linear(rep or hidden_dim, num_classes)

    linear, squash = nn.Linear, nn.Tanh
    act, last = staticmethod(F.gelu), staticmethod(partial(nn.LayerNorm, eps=1e-6))
    embed = staticmethod(lambda d, p: nn.Conv2d(3, d, p, p))
    positions = staticmethod(lambda n, d: nn.Parameter(torch.randn(1, n, d) * 0.02))
    merge = staticmethod(lambda x: x.transpose(1, 2).flatten(2))
    pool = staticmethod(lambda x: x[:, 0])

    def stack(self, n, *sizes):
        return nn.ModuleList(nn.ModuleDict(self.block(*sizes)) for _ in range(n))

    def block(self, d, h, m):
        parts = {"norm1": self.last(d), "qkv": self.linear(d, 3 * d), "proj": self.linear(d, d)}
        return parts | {"norm2": self.last(d), "fc1": self.linear(d, m), "fc2": self.linear(m, d)}

    def patches(self, x):
        return self.patch_embed(x).flatten(2).transpose(1, 2)

    def cat(self, x):
        return torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1)

    def tokens(self, x):
        return self.cat(x) + self.pos_embed

    def split(self, b, x):
        return b.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)

    def weigh(self, q, k):
        return (q @ k.mT * self.scale).softmax(dim=-1)

    def attend(self, b, x):
        q, k, v = self.split(b, x)
        return b.proj(self.merge(self.weigh(q, k) @ v))

    def layer(self, b, x):
        x = x + self.attend(b, b.norm1(x))
        return x + b.fc2(self.act(b.fc1(b.norm2(x))))

    def encode(self, x):
        for block in self.blocks:
            x = self.layer(block, x)
        return self.norm(x)

    def forward(self, x):
        return self.head(self.pre_logits(self.pool(self.encode(self.tokens(self.patches(x))))))


def plain(base=Plain, **pieces):
    return type("MyViT", (base,), pieces)


class Lucid(Plain):
    """Other names of arguments; patches by reshape, (p p c), and a linear layer; lists of lists,
    norms within."""

    def __init__(self, *, image_size, patch_size, num_classes, dim, depth, heads, mlp_dim):
        super().__init__(image_size, patch_size, depth, heads, dim, mlp_dim, num_classes)

    embed = staticmethod(lambda d, p: nn.Linear(3 * p**2, d))

    def patches(self, x):
        x = x.unflatten(3, (-1, self.p)).unflatten(2, (-1, self.p)).permute(0, 2, 4, 3, 5, 1)
        return self.patch_embed(x.flatten(3).flatten(1, 2))

    def block(self, d, h, m):
        parts = Plain.block(self, d, h, m)
        attention = nn.ModuleDict({name: parts[name] for name in ("norm1", "qkv", "proj")})
        return {
            "0": attention,
            "1": nn.Sequential(parts["norm2"], parts["fc1"], nn.GELU(), parts["fc2"]),
        }

    def layer(self, b, x):
        x = self.attend(b["0"], b["0"].norm1(x)) + x
        return b["1"](x) + x


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x):
        var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-6) * self.gamma + self.beta


class Separate(Plain):
    """Query, key and value layers of their own, norm and softmax by hand, F.unfold, nn.Embedding
    for positions."""

    last = Norm
    positions = nn.Embedding
    embed = staticmethod(Lucid.embed)

    def block(self, d, h, m):
        layers = {name: nn.Linear(d, d) for name in ("key", "query", "value", "out")}
        return (
            {"norm1": Norm(d)}
            | layers
            | {"norm2": Norm(d), "fc1": nn.Linear(d, m), "fc2": nn.Linear(m, d)}
        )

    def patches(self, x):
        return self.patch_embed(F.unfold(x, self.p, stride=self.p).mT)

    def tokens(self, x):
        return self.cat(x) + self.pos_embed(torch.arange(x.shape[1] + 1))

    def attend(self, b, x):
        outs, parts = (
            [],
            [layer(x).chunk(self.num_heads, dim=-1) for layer in (b.query, b.key, b.value)],
        )
        for q, k, v in zip(*parts, strict=True):
            e = torch.exp(q @ k.mT / math.sqrt(q.size(-1)))
            outs.append(e / e.sum(-1, keepdim=True) @ v)
        return b.out(torch.cat(outs, -1))


class Heads(Plain):
    """Each head has layers of its own, as in Karpathy's lectures."""

    def block(self, d, h, m):
        heads = [
            nn.ModuleDict({n: nn.Linear(d, d // h) for n in ("key", "query", "value")})
            for _ in range(h)
        ]
        return Plain.block(self, d, h, m) | {"qkv": nn.ModuleList(heads)}

    def attend(self, b, x):
        return b.proj(
            torch.cat(
                [self.weigh(head.query(x), head.key(x)) @ head.value(x) for head in b.qkv], dim=-1
            )
        )


class Slices(Plain):
    """Each head sees only its own slice of a token, and nothing mixes the heads."""

    def block(self, d, h, m):
        side = d // h
        lists = {}
        for name in ("q_maps", "k_maps", "v_maps"):
            lists[name] = nn.ModuleList(nn.Linear(side, side) for _ in range(h))
        return {"n1": self.last(d), **lists, "norm2": self.last(d)} | {
            "fc1": nn.Linear(d, m),
            "fc2": nn.Linear(m, d),
        }

    def attend(self, b, x):
        outs = []
        for part, q, k, v in zip(
            x.chunk(self.num_heads, -1), b.q_maps, b.k_maps, b.v_maps, strict=True
        ):
            outs.append(self.weigh(q(part), k(part)) @ v(part))
        return torch.cat(outs, -1)

    def layer(self, b, x):
        x = x + self.attend(b, b.n1(x))
        return x + b.fc2(self.act(b.fc1(b.norm2(x))))


class ByHeads(Plain):
    """Weights with an axis for the heads, as in the JAX original."""

    def block(self, d, h, m):
        parts = Plain.block(self, d, h, m)
        del parts["qkv"], parts["proj"]
        shapes = {"query": (d, h, d // h), "key": (d, h, d // h), "value": (d, h, d // h)}
        for name, shape in shapes.items():
            parts[name] = Product(shape, shape[1:])
        return parts | {"out": Product((h, d // h, d), (d,))}

    def attend(self, b, x):
        q, k, v = (part(x, 1).transpose(1, 2) for part in (b.query, b.key, b.value))
        return b.out((self.weigh(q, k) @ v).transpose(1, 2), 2)


class Product(nn.Module):
    def __init__(self, shape, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(shape) * 0.1)
        self.bias = nn.Parameter(torch.zeros(bias))

    def forward(self, x, axes):
        return torch.tensordot(x, self.weight, dims=axes) + self.bias


class NoToken(Plain):
    """No class token; fixed positions; the mean over the patches."""

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        table = torch.sin(torch.arange(self.pos_embed[:, 1:].numel()).double())
        del self.cls_token, self.pos_embed
        self.register_buffer("positions_fixed", table.reshape(-1, self.head.in_features))

    pool = staticmethod(lambda x: x.mean(1))

    def tokens(self, x):
        return x + self.positions_fixed


class PatchNorms(Lucid):
    """Norms before and behind the projection of the patches; norms of torch's eps."""

    last = nn.LayerNorm

    @staticmethod
    def embed(d, p):
        return nn.Sequential(nn.LayerNorm(3 * p**2), nn.Linear(3 * p**2, d), nn.LayerNorm(d))


class Scaled(Plain):
    """Branches that are scaled, queries and keys that are normalised, no row for the token."""

    def block(self, d, h, m):
        extra = {"q_norm": nn.LayerNorm(d // h), "k_norm": nn.LayerNorm(d // h)}
        return Plain.block(self, d, h, m) | extra | {"ls": Times(d)}

    positions = staticmethod(lambda n, d: nn.Parameter(torch.randn(1, n - 1, d) * 0.02))

    def tokens(self, x):
        return self.cat(x + self.pos_embed)

    def attend(self, b, x):
        q, k, v = self.split(b, x)
        return b.ls(b.proj(self.merge(self.weigh(b.q_norm(q), b.k_norm(k)) @ v)))


class Times(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((d,), 0.1))

    def forward(self, x):
        return x * self.gamma


class Dense(nn.Module):
    def __init__(self, d, m):
        super().__init__()
        self.W, self.b = nn.Parameter(torch.randn(d, m) * d**-0.5), nn.Parameter(torch.zeros(m))

    def forward(self, x):
        return x @ self.W + self.b
