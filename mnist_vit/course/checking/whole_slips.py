"""Known mistakes in a whole Vision Transformer, each an edit of ``mnist_vit.model``, and the models
they make."""

import functools
import inspect
import itertools
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit import model as original

from .tools import random, randomise
from .whole_matching import LOGITS, Values, first_difference, values_of

# The text that is edited, from the leaves to the whole model.
SPLIT = "return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)"
W_QKV, B_QKV = (
    "w_q, w_k, w_v = self.in_proj_weight.chunk(3)",
    "b_q, b_k, b_v = self.in_proj_bias.chunk(3)",
)
V = "v = self._split_heads(F.linear(value, w_v, b_v))"
SCORES, SOFTMAX = "(q / math.sqrt(self.head_dim)) @ k.transpose(-2, -1)", "scores.softmax(dim=-1)"
MERGE, OUT = "x = (weights @ v).transpose(1, 2)", "x = self.out_proj(x.reshape(query.shape))"
GELU = "activation_layer=nn.GELU"
LN_1, LN_2 = "x = self.ln_1(input)", "y = self.ln_2(x)"
TALK = "x, _ = self.self_attention(x, x, x, need_weights=False)"
ADD, THINK, END = "x = x + input", "y = self.mlp(y)", "return x + y"
POSITIONS, RUN = (
    "input = input + self.pos_embedding",
    "return self.ln(self.layers(self.dropout(input)))",
)
FLATTEN, PERMUTE = "x = x.reshape(n, self.hidden_dim, n_h * n_w)", "x = x.permute(0, 2, 1)"
TOKENS, CONV = "x = torch.cat([batch_class_token, x], dim=1)", "x = self.conv_proj(x)"
READ = "x = x[:, CLASS_TOKEN]"
HEADS, TANH, EPS = (
    "x = self.heads(x)",
    'heads["act"] = nn.Tanh()',
    "= partial(nn.LayerNorm, eps=1e-6),\n        *,",
)
SCRATCH = {  # nn.MultiheadAttention has no source to edit: attention from scratch stands instead
    "nn.MultiheadAttention(\n"
    "            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True\n"
    "        )": ("MultiHeadAttention(hidden_dim, num_heads, attention_dropout)"),
}

_ROOT = "the scores are q kᵀ / √head_dim"
_ROWS = "each row of the weights, one query over all keys, sums to 1: softmax(dim=-1)"
_HEADS = "head i owns the numbers i * head_dim to (i + 1) * head_dim of every token"
_MERGE = (
    "(n, num_heads, seq_length, head_dim) becomes (n, seq_length, num_heads, head_dim) with"
    " transpose(1, 2) first"
)
_LAYOUT = "torchvision's matrix holds all queries' rows, then all keys', then all values'"
_PRE = "pre-norm is x + MSA(LN(x)), then x + MLP(LN(x))"
_MLP = "the MLP is linear, exact GELU, linear"
_ONCE = "position embeddings are added once, to all tokens, before the first block"
_SECOND = "the heads get the class token, after the last norm"
_LOGITS = "logits are the output of the last linear layer, and the loss expects them as they are"

_slips: list[tuple[dict[str, str], str]] = [
    # --- attention weights
    ({SCORES: "q @ k.transpose(-2, -1)"}, f"do not scale the scores: {_ROOT}"),
    (
        {SCORES: "(q / self.head_dim) @ k.transpose(-2, -1)"},
        f"divide the scores by head_dim, or twice by its root: {_ROOT}",
    ),
    (
        {SCORES: "(q / math.sqrt(self.embed_dim)) @ k.transpose(-2, -1)"},
        f"divide the scores by √hidden_dim: {_ROOT}",
    ),
    (
        {SCORES: "q @ k.transpose(-2, -1)", SOFTMAX: f"{SOFTMAX} / math.sqrt(self.head_dim)"},
        "divide by √head_dim after the softmax: the scores are divided, before it",
    ),
    ({SOFTMAX: "scores.softmax(dim=-2)"}, f"apply softmax over the queries (dim=-2): {_ROWS}"),
    ({SOFTMAX: "scores.softmax(dim=1)"}, f"apply softmax over the heads (dim=1): {_ROWS}"),
    ({SOFTMAX: "scores.softmax(dim=0)"}, f"apply softmax over the batch (dim=0): {_ROWS}"),
    ({SOFTMAX: "scores"}, f"leave out the softmax: {_ROWS}"),
    (
        {SOFTMAX: "(scores + torch.full_like(scores, -math.inf).triu(1)).softmax(dim=-1)"},
        (
            "mask later tokens, as a language model does: in a picture every token may attend to"
            " every other"
        ),
    ),
    # --- heads
    (
        {SPLIT: "return x.reshape(x.shape[0], self.num_heads, x.shape[1], self.head_dim)"},
        (
            "split into heads by reshape alone: cut the last dimension in two, then transpose(1,"
            f" 2); {_HEADS}"
        ),
    ),
    (
        {MERGE: "x = weights @ v"},
        f"merge the heads by reshape or view without transposing back: {_MERGE}",
    ),
    (
        {SPLIT: "return x.unflatten(-1, (self.head_dim, self.num_heads)).permute(0, 3, 1, 2)"},
        f"split into interleaved heads, unflatten(-1, (head_dim, num_heads)): {_HEADS}",
    ),
    (
        {
            SPLIT: "return x.unflatten(-1, (self.head_dim, self.num_heads)).permute(0, 3, 1, 2)",
            MERGE: "x = (weights @ v).permute(0, 2, 3, 1)",
        },
        f"interleave the heads, (head_dim, num_heads), in split and merge: {_HEADS}",
    ),
    (
        {
            "self.num_heads = num_heads\n        self.head_dim = embed_dim // num_heads": (
                "self.num_heads = 1\n        self.head_dim = embed_dim"
            )
        },
        "use one head for everything: num_heads is not used",
    ),
    (
        {
            TALK: (
                "x = self.self_attention(*[x.transpose(0, 1)] * 3,"
                " need_weights=False)[0].transpose(0, 1)"
            )
        },
        (
            "let the pictures of a batch attend to each other, not the tokens:"
            " nn.MultiheadAttention needs batch_first=True"
        ),
    ),
    # --- queries, keys, values, output
    *(
        (
            {
                W_QKV: f"w_{a}, w_{b}, w_{c} = self.in_proj_weight.chunk(3)",
                B_QKV: f"b_{a}, b_{b}, b_{c} = self.in_proj_bias.chunk(3)",
            },
            f"take the parts of the qkv matrix as ({a}, {b}, {c}): the order is (q, k, v)",
        )
        for a, b, c in ("qvk", "kqv", "kvq", "vqk", "vkq")
    ),
    *(
        (
            {
                W_QKV: (
                    "w_q, w_k, w_v = self.in_proj_weight.unflatten(0,"
                    f" ({axes})).movedim({moved}).flatten(1, 2)"
                ),
                B_QKV: (
                    "b_q, b_k, b_v = self.in_proj_bias.unflatten(0,"
                    f" ({axes})).movedim({moved}).flatten(1, 2)"
                ),
            },
            (
                f"read the rows of the qkv matrix as ({axes.replace('self.', '')}): right by"
                f" itself, but trained weights do not fit; {_LAYOUT}"
            ),
        )
        for axes, moved in (
            ("self.num_heads, 3, self.head_dim", "1, 0"),
            ("self.num_heads, self.head_dim, 3", "2, 0"),
            ("self.head_dim, 3, self.num_heads", "(1, 2), (0, 1)"),
        )
    ),
    ({V: "v = self._split_heads(value)"}, "do not project the values: v = x W_v + b_v"),
    (
        {OUT: "x = x.reshape(query.shape)"},
        "forget out_proj: the merged heads go through one more linear layer",
    ),
    # --- block
    (
        {ADD: ""},
        (
            "leave out the first residual connection: what went in is added to what the attention"
            " gives"
        ),
    ),
    (
        {END: "return y"},
        "leave out the second residual connection: what went in is added to what the MLP gives",
    ),
    (
        {
            LN_1: "x = input",
            ADD: "x = self.ln_1(x + input)",
            LN_2: "y = x",
            END: "return self.ln_2(x + y)",
        },
        f"normalise after adding (post-norm, as in 2017): {_PRE}",
    ),
    (
        {
            LN_1: "x = input",
            ADD: "x = self.ln_1(x) + input",
            LN_2: "y = x",
            END: "return x + self.ln_2(y)",
        },
        f"normalise what comes out of a branch: {_PRE}",
    ),
    ({LN_1: "x = input", LN_2: "y = x"}, f"leave out both norms of the block: {_PRE}"),
    ({LN_1: "x = input"}, f"leave out ln_1: {_PRE}"),
    ({LN_2: "y = x"}, f"leave out ln_2: {_PRE}"),
    (
        {LN_1: "x = input = self.ln_1(input)", LN_2: "x = y = self.ln_2(x)"},
        f"add normalised tokens in both places: {_PRE}",
    ),
    (
        {LN_2: "y = self.ln_2(input)"},
        "run attention and MLP side by side: the MLP takes what the attention has changed",
    ),
    ({LN_2: "y = self.ln_1(x)"}, "use ln_1 in both places: the MLP has its own norm"),
    ({THINK: ""}, "leave out the MLP"),
    ({GELU: "activation_layer=nn.Identity"}, f"leave out GELU between the MLP's layers: {_MLP}"),
    (
        {GELU: "activation_layer=partial(nn.GELU, approximate='tanh')"},
        f"use GELU's tanh approximation: {_MLP}",
    ),
    *(
        ({GELU: f"activation_layer=nn.{name}"}, f"use {name} instead of GELU: {_MLP}")
        for name in ("ReLU", "SiLU", "Tanh", "LeakyReLU", "ELU")
    ),
    (
        {THINK: "y = self.mlp[3](torch.sigmoid(1.702 * self.mlp[0](y)) * self.mlp[0](y))"},
        f"use x sigmoid(1.702 x), the QuickGELU of CLIP, instead of GELU: {_MLP}",
    ),
    # --- encoder
    ({POSITIONS: ""}, f"forget the position embedding: {_ONCE}"),
    (
        {POSITIONS: "input = input + 2 * self.pos_embedding"},
        f"add the position embedding twice: {_ONCE}",
    ),
    (
        {
            RUN: (
                "for layer in self.layers[:1]: input = layer(input)\n        for layer in"
                " self.layers[1:]: input = layer(input + self.pos_embedding)\n        return"
                " self.ln(input)"
            )
        },
        f"add the position embedding before every block: {_ONCE}",
    ),
    (
        {
            POSITIONS: (
                "input = torch.cat([input[:, :1], input[:, 1:] + self.pos_embedding[:, 1:]], dim=1)"
            )
        },
        f"add positions to the patches only, not to the class token: {_ONCE}",
    ),
    (
        {
            POSITIONS: (
                "input = torch.cat([input[:, :1], input[:, 1:] + self.pos_embedding[:, :-1]],"
                " dim=1)"
            )
        },
        f"add positions to the patches before the class token is there: {_ONCE}",
    ),
    ({RUN: "return self.layers(input)"}, "forget the last norm, encoder.ln, after the blocks"),
    (
        {
            RUN: (
                "for _ in self.layers: input = self.layers[-1](input)\n        return"
                " self.ln(input)"
            )
        },
        "reuse one block, the same parameters in each layer: each layer is a block of its own",
    ),
    (
        {
            RUN: (
                "for layer in reversed(self.layers): input = layer(input)\n        return"
                " self.ln(input)"
            )
        },
        "run the blocks in reverse: block 0 comes first",
    ),
    (
        {RUN: "return self.ln(self.layers[-1](input))"},
        "run the last block only, or discard the output of the earlier ones",
    ),
    (
        {EPS: EPS.replace("1e-6", "1e-5")},
        "leave LayerNorm's eps at torch's default, 1e-5: torchvision's is 1e-6",
    ),
    (
        {EPS: EPS.replace("1e-6", "1e-12")},
        "set LayerNorm's eps to 1e-12, as Hugging Face does: torchvision's is 1e-6",
    ),
    (
        {"self.ln = norm_layer(hidden_dim)": "self.ln = nn.LayerNorm(hidden_dim)"},
        "leave the last norm's eps at torch's default, 1e-5: torchvision's is 1e-6",
    ),
    (
        {
            "hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer\n            )": (
                "hidden_dim, mlp_dim, dropout, attention_dropout, nn.LayerNorm\n            )"
            )
        },
        "leave the eps of the blocks' norms at torch's default, 1e-5: torchvision's is 1e-6",
    ),
    # --- the whole
    (
        {TOKENS: "x = torch.cat([x, batch_class_token], dim=1)"},
        "append the class token last, and read the first token",
    ),
    (
        {TOKENS: "x = torch.cat([x, batch_class_token], dim=1)", READ: "x = x[:, -1]"},
        "append the class token last: it comes first, so that it gets position 0",
    ),
    ({READ: "x = x[:, -1]"}, f"read the last token: {_SECOND}, x[:, 0]"),
    (
        {READ: "x = x.mean(dim=1)"},
        f"pass to the heads the mean over all tokens: {_SECOND}, x[:, 0]",
    ),
    (
        {READ: "x = x[:, 1:].mean(dim=1)"},
        f"pass to the heads the mean over the patches: {_SECOND}, x[:, 0]",
    ),
    ({READ: ""}, f"send all tokens through the heads: {_SECOND}, x[:, 0]"),
    (
        {CONV: "x = self.conv_proj(x).transpose(2, 3)"},
        "number the patches column by column: they come row by row",
    ),
    (
        {FLATTEN: "x = x.reshape(n, n_h * n_w, self.hidden_dim)", PERMUTE: ""},
        (
            "reshape (n, hidden_dim, n_h, n_w) straight to (n, patches, hidden_dim): flatten(2),"
            " then transpose(1, 2)"
        ),
    ),
    *(
        ({HEADS: f"x = {function}(self.heads(x))"}, f"apply {name} to the logits: {_LOGITS}")
        for name, function in (
            ("GELU", "F.gelu"),
            ("ReLU", "F.relu"),
            ("tanh", "F.tanh"),
            ("the sigmoid", "F.sigmoid"),
        )
    ),
    *(
        ({HEADS: f"x = self.heads(x).{name}(dim=-1)"}, f"apply {name} to the logits: {_LOGITS}")
        for name in ("softmax", "log_softmax")
    ),
    ({TANH: 'heads["act"] = nn.Identity()'}, "leave out tanh between pre_logits and head"),
    *(
        (
            {TANH: f'heads["act"] = nn.{name}()'},
            f"use {name} between pre_logits and head: it is tanh",
        )
        for name in ("GELU", "ReLU")
    ),
]
SLIPS = {does: change for change, does in _slips}  # what its author did: the edit


@functools.cache
def _sources() -> dict[str, str]:
    """The source of each class of ``mnist_vit.model``."""
    kinds = [getattr(original, name) for name in original.__all__]
    return {kind.__name__: inspect.getsource(kind) for kind in kinds if isinstance(kind, type)}


@functools.lru_cache(maxsize=1000)
def _code(source: str) -> CodeType:
    return compile(source, "<a known mistake>", "exec")


def mutant(*changes: dict[str, str]) -> type[nn.Module]:
    """VisionTransformer with attention from scratch, after edits. ValueError unless each old text
    stands there once."""
    sources = dict(_sources())
    for old, new in ((old, new) for change in (SCRATCH, *changes) for old, new in change.items()):
        homes = [name for name, text in sources.items() for _ in range(text.count(old))]
        if len(homes) != 1:
            raise ValueError(
                f"mnist_vit.model must hold {old!r} once, and holds it {len(homes)} times"
            )
        sources[homes[0]] = sources[homes[0]].replace(old, new)
    names = dict(vars(original))
    for source in sources.values():
        exec(_code(source), names)
    return names["VisionTransformer"]


# ------------------------------------------------------------------------------------------------
# what ours computes


@dataclass(frozen=True)
class Setting:
    """Sizes, the names of parameters that have no effect, and the dtype; they determine all weights
    and pictures."""

    sizes: tuple[tuple[str, Any], ...]
    neutral: tuple[str, ...]
    dtype: torch.dtype

    def pictures(self) -> Tensor:
        """Four pictures of small numbers, so that a norm's eps shows."""
        sizes = dict(self.sizes)
        shape = (4, sizes["in_channels"], sizes["image_size"], sizes["image_size"])
        return 0.05 * random(*shape, seed=1, dtype=self.dtype)

    def model(self, kind: type[nn.Module]) -> nn.Module:
        """A model in eval mode, with the check's weights."""
        model = kind(**dict(self.sizes)).to(self.dtype).eval()
        model.load_state_dict(_weights(self))
        return model


@functools.lru_cache(maxsize=2)
def _weights(setting: Setting) -> dict[str, Tensor]:
    """The check's weights; residual branches are small, so that a norm's eps shows."""
    model = randomise(original.VisionTransformer(**dict(setting.sizes)).to(setting.dtype))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if re.search(r"out_proj|mlp\.3|class_token|pos_embedding|conv_proj.bias", name):
                parameter.mul_(0.2)
            if name in setting.neutral:
                make_neutral(name, parameter)
    return model.state_dict()


def make_neutral(name: str, parameter: Tensor) -> None:
    """Fill a parameter so that it does nothing: a square matrix is the identity, a norm's weight 1,
    all else 0."""
    with torch.no_grad():
        parameter.zero_()
        if parameter.dim() == 1 and not re.search("bias|beta|token|cls|pos", name):
            parameter.fill_(1)
        elif parameter.dim() == 2 and parameter.shape[0] == parameter.shape[1]:
            parameter.fill_diagonal_(1)


def our_values(setting: Setting, *slips: str) -> Values:
    """What our model computes, with attention from scratch, after the edits of some slips; kept if
    it is small."""
    small = dict(setting.sizes)["hidden_dim"] < 100 and len(slips) < 2
    return (_our_values if small else _our_values.__wrapped__)(setting, *slips)


@functools.lru_cache(maxsize=512)
def _our_values(setting: Setting, *slips: str) -> Values:
    model = setting.model(mutant(*(SLIPS[slip] for slip in slips)))
    return values_of(
        model, {name: name for name, _ in model.named_parameters()}, setting.pictures()
    )


def explain(theirs: Values, setting: Setting, seconds: float = 30.0) -> tuple[str, ...]:
    """The known slips, three at most, with which our model computes every value that theirs does;
    () if none do.

    Another slip is added only where those before it made more values agree, and only one that
    changes the first value that still differs. After ``seconds`` it gives up.
    """
    ours = {label: value for label, value in our_values(setting).items() if label in theirs}
    end = time.monotonic() + seconds
    changes: dict[str, str | None] = {}  # the first value that a slip changes by itself
    frontier: list[tuple[tuple[str, ...], str]] = [((), first_difference(theirs, ours) or LOGITS)]
    for _ in range(3):
        further: list[tuple[int, tuple[str, ...], str]] = []
        for (slips, label), slip in itertools.product(frontier, SLIPS):
            if changes.get(slip, label) != label:
                continue
            if time.monotonic() > end:
                return ()
            with suppress(Exception):  # edits that do not go together, or a model that does not run
                values = our_values(setting, *slips, slip)
                found = first_difference(theirs, values)
                if found is None:
                    return (*slips, slip)
                if not slips:
                    changes[slip] = first_difference(values, ours)
                order = list(values)
                if label in order and order.index(found) > order.index(label):
                    further.append((order.index(found), (*slips, slip), found))
        frontier = [(slips, found) for _, slips, found in sorted(further, reverse=True)[:8]]
    return ()
