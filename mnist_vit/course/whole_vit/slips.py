"""Known mistakes in a whole Vision Transformer, each an edit of ``mnist_vit.model``."""

import itertools
from collections.abc import Collection

from ..checking import Slip

# The text that is edited, from the leaves to the whole model.
SPLIT = "return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)"
W_QKV = "w_q, w_k, w_v = self.in_proj_weight.chunk(3)"
B_QKV = "b_q, b_k, b_v = self.in_proj_bias.chunk(3)"
V = "v = self._split_heads(F.linear(value, w_v, b_v))"
SCORES = "(q / math.sqrt(self.head_dim)) @ k.transpose(-2, -1)"
SOFTMAX = "scores.softmax(dim=-1)"
MERGE = "x = (weights @ v).transpose(1, 2)"
OUT = "x = self.out_proj(x.reshape(query.shape))"
GELU = "activation_layer=nn.GELU"
LN_1 = "x = self.ln_1(input)"
LN_2 = "y = self.ln_2(x)"
TALK = "x, _ = self.self_attention(x, x, x, need_weights=False)"
ADD = "x = x + input"
THINK = "y = self.mlp(y)"
END = "return x + y"
POSITIONS = "input = input + self.pos_embedding"
RUN = "return self.ln(self.layers(self.dropout(input)))"
LAYERS = "self.layers = nn.Sequential(layers)"
FLATTEN = "x = x.reshape(n, self.hidden_dim, n_h * n_w)"
PERMUTE = "x = x.permute(0, 2, 1)"
TOKENS = "x = torch.cat([batch_class_token, x], dim=1)"
CONV = "x = self.conv_proj(x)"
READ = "x = x[:, CLASS_TOKEN]"
HEADS = "x = self.heads(x)"
TANH = 'heads["act"] = nn.Tanh()'
EPS = "= partial(nn.LayerNorm, eps=1e-6),\n        *,"

_ROOT = "The scores are q kᵀ / √head_dim"
_ROWS = "Each row of the weights, one query over all keys, sums to 1: softmax(dim=-1)"
_HEADS = "Head i owns the numbers i * head_dim to (i + 1) * head_dim of every token"
_MERGE = (
    "(n, num_heads, seq_length, head_dim) becomes (n, seq_length, num_heads, head_dim) with"
    " transpose(1, 2) first"
)
_LAYOUT = "Torchvision's matrix holds all queries' rows, then all keys', then all values'"
_PRE = "Pre-norm is x + MSA(LN(x)), then x + MLP(LN(x))"
_MLP = "The MLP is linear, exact GELU, linear"
_ONCE = "Position embeddings are added once, to all tokens, before the first block"
_SECOND = "The heads get the class token, after the last norm"
_LOGITS = "Logits are the output of the last linear layer, and the loss expects them as they are"


def _reuse(which: int) -> Slip:
    """One block, the first or the last, in each layer."""
    loop = f"[x := self.layers[{which}](x) for _ in range(num_layers)]"
    return Slip(
        {LAYERS: f"{LAYERS}\n        self.layers.forward = lambda x: {loop}[-1]"},
        "reuse one block, the same parameters in each layer",
        "Each layer is a block of its own",
    )


REUSE = _reuse(0)
NO_LAST_NORM = Slip(
    {RUN: "return self.layers(input)"},
    "forget the last norm, encoder.ln, after the blocks",
    "It normalises what the last block gives, before the heads",
)
NO_HEAD = Slip(
    {HEADS: ""},
    "use no class head",
    "It makes logits of the class token",
)
NO_NORMS = (
    Slip({LN_1: "x = input", LN_2: "y = x"}, "leave out both norms of the block", _PRE),
    Slip({LN_1: "x = input"}, "leave out ln_1", _PRE),
    Slip({LN_2: "y = x"}, "leave out ln_2", _PRE),
)
ALL_TOKENS = Slip({READ: ""}, "send all tokens through the heads", f"{_SECOND}, x[:, 0]")
NO_MLP = Slip(
    {LN_2: "", THINK: "", END: "return x"},
    "have no MLP in the blocks",
    "Every block has one, after the attention and a norm",
)
SIDE_BY_SIDE_AFTER_ONE_NORM = Slip(
    {LN_2: "y = self.ln_1(input)"},
    "run attention and MLP side by side, after one norm",
    "The MLP has its own norm, and takes what the attention has changed",
)
ONE_NORM = Slip({LN_2: "y = self.ln_1(x)"}, "use ln_1 in both places", "The MLP has its own norm")
LAST = "x = torch.cat([x, batch_class_token], dim=1)"
TOKEN_LAST = Slip(
    {TOKENS: LAST},
    "append the class token last, and read the first token",
    "The class token comes first, so that the first token is the class token",
)
NO_TOKEN = Slip(
    {TOKENS: "", POSITIONS: "input = input + self.pos_embedding[:, 1:]"},
    "use no class token",
    "It is the first of the tokens, and the heads get it",
)

_RMS = (
    "type('RMSNorm', (nn.LayerNorm,), {'forward': lambda self, x: F.rms_norm(x, x.shape[-1:],"
    " self.weight, self.eps) + self.bias})(hidden_dim, eps=1e-6)"
)


def _rms_norms(places: tuple[str, ...]) -> Slip:
    """RMSNorm in these places."""
    did = "use RMSNorm instead of LayerNorm"
    if len(places) < len(NORMS):
        did = f"{did} as {' and '.join(NORMS[place] for place in places)}"
    return Slip(
        {f"self.{place} = norm_layer(hidden_dim)": f"self.{place} = {_RMS}" for place in places},
        did,
        "LayerNorm subtracts the mean of a token before, and adds a bias",
    )


def together(slips: Collection[Slip]) -> list[str]:
    """The sentences of slips, as the ends of "when you …", where all are made in one model."""
    said = []
    pooled = [slip for slip in slips if READ in slip.edit]
    for slip in slips:
        sentence = slip.sentence
        if slip is TOKEN_LAST and pooled:  # the first token is not read then
            sentence = "append the class token last. It comes first, so that it gets position 0"
        if NO_HEAD in slips:
            sentence = sentence.replace("pass to the heads", "return")
            sentence = sentence.replace("send all tokens through the heads", "return all tokens")
        said.append(sentence)
    return said


def changes_blocks(slip: Slip) -> bool:
    """Whether with a slip a block runs other parts than ours, or in another order."""
    return not {LN_1, LN_2, ADD, END, THINK}.isdisjoint(slip.edit)


NORMS = {"ln_1": "ln_1", "ln_2": "ln_2", "ln": "the last norm"}
RMS_NORMS: dict[tuple[str, ...], Slip] = {}
for _many in (3, 2, 1):
    for _places in itertools.combinations(NORMS, _many):
        RMS_NORMS[_places] = _rms_norms(_places)

SLIPS = [
    RMS_NORMS[tuple(NORMS)],
    # --- attention weights
    Slip({SCORES: "q @ k.transpose(-2, -1)"}, "do not scale the scores", _ROOT),
    Slip(
        {SCORES: "(q / self.head_dim) @ k.transpose(-2, -1)"},
        "divide the scores by head_dim, or twice by its root",
        _ROOT,
    ),
    Slip(
        {SCORES: "(q / math.sqrt(self.embed_dim)) @ k.transpose(-2, -1)"},
        "divide the scores by √hidden_dim",
        _ROOT,
    ),
    Slip(
        {SCORES: "q @ k.transpose(-2, -1)", SOFTMAX: f"{SOFTMAX} / math.sqrt(self.head_dim)"},
        "divide by √head_dim after the softmax",
        "The scores are divided, before it",
    ),
    Slip(
        {SCORES: "q @ k.transpose(-2, -1)", SOFTMAX: f"{SOFTMAX} / math.sqrt(self.embed_dim)"},
        "divide by √hidden_dim after the softmax",
        f"{_ROOT}; they are divided before the softmax",
    ),
    Slip({SOFTMAX: "scores.softmax(dim=-2)"}, "apply softmax over the queries (dim=-2)", _ROWS),
    Slip({SOFTMAX: "scores.softmax(dim=1)"}, "apply softmax over the heads (dim=1)", _ROWS),
    Slip({SOFTMAX: "scores.softmax(dim=0)"}, "apply softmax over the batch (dim=0)", _ROWS),
    Slip({SOFTMAX: "scores"}, "leave out the softmax", _ROWS),
    Slip(
        {SOFTMAX: "scores.softmax(dim=-1).softmax(dim=-1)"},
        "apply softmax twice",
        "Once makes weights of the scores; a second one makes them nearly even",
    ),
    Slip(
        {SOFTMAX: "(scores + torch.full_like(scores, -math.inf).triu(1)).softmax(dim=-1)"},
        "mask later tokens, as a language model does",
        "In a picture every token may attend to every other",
    ),
    # --- heads
    Slip(
        {SPLIT: "return x.reshape(x.shape[0], self.num_heads, x.shape[1], self.head_dim)"},
        "split into heads by reshape alone",
        f"Cut the last dimension in two, then transpose(1, 2). {_HEADS}",
    ),
    Slip(
        {MERGE: "x = weights @ v"},
        "merge the heads by reshape or view without transposing back",
        _MERGE,
    ),
    Slip(
        {SPLIT: "return x.unflatten(-1, (self.head_dim, self.num_heads)).permute(0, 3, 1, 2)"},
        "split into interleaved heads, unflatten(-1, (head_dim, num_heads))",
        _HEADS,
    ),
    Slip(
        {
            SPLIT: "return x.unflatten(-1, (self.head_dim, self.num_heads)).permute(0, 3, 1, 2)",
            MERGE: "x = (weights @ v).permute(0, 2, 3, 1)",
        },
        "interleave the heads, (head_dim, num_heads), in split and merge",
        _HEADS,
    ),
    Slip(
        {
            "self.num_heads = num_heads\n        self.head_dim = embed_dim // num_heads": (
                "self.num_heads = 1\n        self.head_dim = embed_dim"
            )
        },
        "use one head for everything",
        "The width is divided among num_heads heads",
    ),
    Slip(
        {
            TALK: (
                "x = self.self_attention(*[x.transpose(0, 1)] * 3,"
                " need_weights=False)[0].transpose(0, 1)"
            )
        },
        "let the pictures of a batch attend to each other, not the tokens",
        "Give nn.MultiheadAttention batch_first=True",
    ),
    # --- queries, keys, values, output
    *(
        Slip(
            {
                W_QKV: f"w_{a}, w_{b}, w_{c} = self.in_proj_weight.chunk(3)",
                B_QKV: f"b_{a}, b_{b}, b_{c} = self.in_proj_bias.chunk(3)",
            },
            f"take the parts of the qkv matrix as ({a}, {b}, {c})",
            "The order is (q, k, v)",
        )
        for a, b, c in ("qvk", "kqv", "kvq", "vqk", "vkq")
    ),
    *(
        Slip(
            {
                W_QKV: f"{W_QKV}\n        {which.format('w')}",
                B_QKV: f"{B_QKV}\n        {which.format('b')}",
            },
            f"use the projection of the {whose}, too",
            "Queries, keys and values have a projection each",
        )
        for which, whose in (
            ("{0}_k = {0}_v = {0}_q", "queries for the keys and the values"),
            ("{0}_k = {0}_q", "queries for the keys"),
            ("{0}_v = {0}_q", "queries for the values"),
            ("{0}_v = {0}_k", "keys for the values"),
            ("{0}_q = {0}_k", "keys for the queries"),
        )
    ),
    *(
        Slip(
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
            f"read the rows of the qkv matrix as ({axes.replace('self.', '')})",
            f"That alone is no mistake, but trained weights do not fit. {_LAYOUT}",
        )
        for axes, moved in (
            ("self.num_heads, 3, self.head_dim", "1, 0"),
            ("self.num_heads, self.head_dim, 3", "2, 0"),
            ("self.head_dim, 3, self.num_heads", "(1, 2), (0, 1)"),
        )
    ),
    Slip(
        {V: "v = self._split_heads(value)"},
        "do not project the values",
        "The values are v = x W_v + b_v",
    ),
    Slip(
        {OUT: "x = x.reshape(query.shape)"},
        "forget out_proj",
        "The merged heads go through one more linear layer",
    ),
    # --- block
    Slip(
        {ADD: ""},
        "leave out the first residual connection",
        "What went in is added to what the attention gives",
    ),
    Slip(
        {END: "return x - input + y"},
        "add what attention and MLP give, without what went into the block",
        _PRE,
    ),
    Slip(
        {END: "return y"},
        "leave out the second residual connection",
        "What went in is added to what the MLP gives",
    ),
    Slip(
        {
            LN_1: "x = input",
            ADD: "x = self.ln_1(x + input)",
            LN_2: "y = x",
            END: "return self.ln_2(x + y)",
        },
        "normalise after adding (post-norm, as in 2017)",
        _PRE,
    ),
    Slip(
        {
            LN_1: "x = input",
            ADD: "x = self.ln_1(x) + input",
            LN_2: "y = x",
            END: "return x + self.ln_2(y)",
        },
        "normalise what comes out of a branch",
        _PRE,
    ),
    *NO_NORMS,
    Slip(
        {LN_1: "x = input = self.ln_1(input)", LN_2: "x = y = self.ln_2(x)"},
        "add normalised tokens in both places",
        _PRE,
    ),
    Slip(
        {LN_1: "x = input = self.ln_1(input)"},
        "add normalised tokens to what the attention gives",
        _PRE,
    ),
    Slip(
        {LN_2: "x = y = self.ln_2(x)"},
        "add normalised tokens to what the MLP gives",
        _PRE,
    ),
    Slip(
        {LN_2: "y = self.ln_2(input)"},
        "run attention and MLP side by side",
        "The MLP takes what the attention has changed",
    ),
    ONE_NORM,
    SIDE_BY_SIDE_AFTER_ONE_NORM,
    Slip({THINK: ""}, "leave out the MLP", "Every block has one, after the attention"),
    Slip({ADD: "x = input"}, "throw away what the attention gives", _PRE),
    Slip({END: "return x"}, "throw away what the MLP gives", _PRE),
    Slip({END: "return input"}, "return from each block what it was given", _PRE),
    *(
        Slip(
            {THINK: f"y = F.{function}(self.mlp(y))"},
            f"apply {name} after the MLP's second layer, too",
            _MLP,
        )
        for function, name in (("gelu", "GELU"), ("relu", "ReLU"))
    ),
    Slip({GELU: "activation_layer=nn.Identity"}, "leave out GELU between the MLP's layers", _MLP),
    Slip(
        {GELU: "activation_layer=partial(nn.GELU, approximate='tanh')"},
        "use GELU's tanh approximation",
        _MLP,
    ),
    *(
        Slip(
            {GELU: f"activation_layer=nn.{name}"},
            f"use {name} instead of GELU",
            _MLP,
        )
        for name in ("ReLU", "SiLU", "Tanh", "LeakyReLU", "ELU")
    ),
    Slip(
        {THINK: "y = self.mlp[3](torch.sigmoid(1.702 * self.mlp[0](y)) * self.mlp[0](y))"},
        "use x sigmoid(1.702 x), the QuickGELU of CLIP, instead of GELU",
        _MLP,
    ),
    # --- encoder
    Slip({POSITIONS: ""}, "forget the position embedding", _ONCE),
    Slip(
        {POSITIONS: "input = input + 2 * self.pos_embedding"},
        "add the position embedding twice",
        _ONCE,
    ),
    Slip(
        {
            RUN: (
                "for layer in self.layers[:1]: input = layer(input)\n        for layer in"
                " self.layers[1:]: input = layer(input + self.pos_embedding)\n        return"
                " self.ln(input)"
            )
        },
        "add the position embedding before every block",
        _ONCE,
    ),
    Slip(
        {
            POSITIONS: (
                "input = torch.cat([input[:, :1], input[:, 1:] + self.pos_embedding[:, 1:]], dim=1)"
            )
        },
        "add positions to the patches only, not to the class token",
        _ONCE,
    ),
    Slip(
        {
            POSITIONS: (
                "input = torch.cat([input[:, :1], input[:, 1:] + self.pos_embedding[:, :-1]],"
                " dim=1)"
            )
        },
        "add positions to the patches before the class token is there",
        _ONCE,
    ),
    NO_LAST_NORM,
    REUSE,
    _reuse(-1),
    Slip(
        {
            RUN: (
                "for layer in reversed(self.layers): input = layer(input)\n        return"
                " self.ln(input)"
            )
        },
        "run the blocks in reverse",
        "Block 0 comes first",
    ),
    Slip(
        {RUN: "return self.ln(self.layers[-1](input))"},
        "run the last block only, or discard the output of the earlier ones",
        "Each block takes what the block before it gives",
    ),
    Slip(
        {EPS: EPS.replace("1e-6", "1e-5")},
        "leave LayerNorm's eps at torch's default, 1e-5",
        "Torchvision's is 1e-6",
    ),
    Slip(
        {EPS: EPS.replace("1e-6", "1e-12")},
        "set LayerNorm's eps to 1e-12, as Hugging Face does",
        "Torchvision's is 1e-6",
    ),
    Slip(
        {"self.ln = norm_layer(hidden_dim)": "self.ln = nn.LayerNorm(hidden_dim)"},
        "leave the last norm's eps at torch's default, 1e-5",
        "Torchvision's is 1e-6",
    ),
    Slip(
        {
            "hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer\n            )": (
                "hidden_dim, mlp_dim, dropout, attention_dropout, nn.LayerNorm\n            )"
            )
        },
        "leave the eps of the blocks' norms at torch's default, 1e-5",
        "Torchvision's is 1e-6",
    ),
    # --- the whole
    TOKEN_LAST,
    Slip(
        {TOKENS: LAST, READ: "x = x[:, -1]"},
        "append the class token last",
        "It comes first, so that it gets position 0",
    ),
    Slip({READ: "x = x[:, -1]"}, "read the last token", f"{_SECOND}, x[:, 0]"),
    Slip(
        {READ: "x = x.mean(dim=1)"},
        "pass to the heads the mean over all tokens",
        f"{_SECOND}, x[:, 0]",
    ),
    Slip(
        {READ: "x = x[:, 1:].mean(dim=1)"},
        "pass to the heads the mean over the patches",
        f"{_SECOND}, x[:, 0]",
    ),
    ALL_TOKENS,
    *(
        Slip(
            {RUN: "return self.layers(self.dropout(input))", READ: f"x = self.encoder.ln({mean})"},
            f"take the mean over {tokens} first and normalise it then",
            _SECOND,
        )
        for tokens, mean in (
            ("all tokens", "x.mean(dim=1)"),
            ("the patches", "x[:, 1:].mean(dim=1)"),
        )
    ),
    NO_HEAD,
    NO_TOKEN,
    Slip(
        {CONV: "x = self.conv_proj(x).transpose(2, 3)"},
        "number the patches column by column",
        "They come row by row",
    ),
    Slip(
        {FLATTEN: "x = x.reshape(n, n_h * n_w, self.hidden_dim)", PERMUTE: ""},
        "reshape (n, hidden_dim, n_h, n_w) straight to (n, patches, hidden_dim)",
        "Use flatten(2), then transpose(1, 2)",
    ),
    *(
        Slip(
            {HEADS: f"{HEADS}\n        x = {result}"},
            f"apply {name} to the logits",
            _LOGITS,
        )
        for name, result in (
            ("GELU", "F.gelu(x)"),
            ("ReLU", "F.relu(x)"),
            ("tanh", "F.tanh(x)"),
            ("the sigmoid", "F.sigmoid(x)"),
            ("softmax", "x.softmax(dim=-1)"),
            ("log_softmax", "x.log_softmax(dim=-1)"),
        )
    ),
    Slip(
        {TANH: 'heads["act"] = nn.Identity()'},
        "leave out tanh between pre_logits and head",
        "With representation_size the heads are linear, tanh, linear",
    ),
    *(
        Slip(
            {TANH: f'heads["act"] = nn.{name}()'},
            f"use {name} between pre_logits and head",
            "It is tanh",
        )
        for name in ("GELU", "ReLU")
    ),
]
