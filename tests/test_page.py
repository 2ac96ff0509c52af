"""The blank page of notebook 06: a model in one file with its tests; what is told of it, and how it
becomes ``my_vit.py``."""

import re
from pathlib import Path

import pytest
from helpers import ROOT

from mnist_vit import check, load_model
from mnist_vit.course.keeping.layout import parse

NAMES = {
    "MyVisionTransformer": "VisionTransformer",
    "MyEncoderBlock": "Block",
    "MyEncoder": "Stack",
    "MyMLPBlock": "MLP",
    "MyMultiHeadAttention": "Attention",
    "my_split_heads": "split",
    "my_attention": "attend",
    "in_channels=3,": "in_channels=3,\n        print_shapes=False,",
    "        p = patch_size\n": "        self.show = print if print_shapes else len\n"
    "        p = patch_size\n",
}
FORWARD = """    def forward(self, x):
        self.say("Input", x.shape)
        x = self.conv_proj(x)
        self.say("After Projection", x.shape)
        x = x.flatten(2)
        self.say("After Reshape", x.shape)
        x = x.transpose(1, 2)
        self.say("After Permute", x.shape)
        self.say("Batch Size", len(x))
        token = self.class_token.expand(len(x), -1, -1)
        self.say("Batch Class Token", token.shape)
        x = torch.cat([token, x], dim=1)
        self.say("Encoder Input", x.shape)
        x = self.encoder(x)
        self.say("Encoder Output", x.shape)
        x = x[:, 0]
        self.say("Only Batch Class Token", x.shape)
        x = self.heads(x)
        self.say("Output", x.shape)
        return x

    def say(self, label, shape):
        self.show(f"{label}: {shape}")
"""
TESTS = """

def test_shape(kind):
    model = kind(28, 7, 2, 2, 64, 256, num_classes=10)
    assert model(torch.zeros(2, 3, 28, 28)).shape == (2, 10)


def test_logits_may_be_below_gelus_least(kind):
    model = kind(28, 7, 2, 2, 64, 256, num_classes=10)
    nn.init.constant_(model.heads.head.bias, -3.0)
    assert (model(torch.zeros(1, 3, 28, 28)) == -3).all()


def test_places_matter(kind):
    model = kind(28, 7, 2, 2, 64, 256, num_classes=10).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    images = torch.randn(1, 3, 28, 28)
    assert not torch.allclose(model(images), model(images.roll(7, 2)), atol=1e-4)
"""


def page_of(*edits: tuple[str, str]) -> str:
    """A right page, edited: each old text stands in it once."""
    text = (ROOT / "tests" / "my_vit_format_1.txt").read_text(encoding="utf-8")
    for old, new in NAMES.items():
        text = text.replace(old, new)
    text = re.sub(r"(?m)^# ---- .*$", "", text)
    head, begin, last = text.rpartition("    def forward(self, x):\n")
    assert begin
    assert "self.heads(x)" in last
    text = head + FORWARD + TESTS
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


HEAD = """        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = True,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
"""
TAIL = """        if not need_weights:
            return output, None
        return output, weights.mean(dim=1) if average_attn_weights else weights
"""
OUTPUT_ONLY = [
    (HEAD, "        x,\n    ):\n        query = key = value = x\n"),
    (TAIL, "        return output\n"),
    ("x, _ = self.self_attention(x, x, x, need_weights=False)", "x = self.self_attention(x)"),
]
ASKED = "attention weights: the package cannot record them, and the later notebooks need them (rule"


@pytest.fixture
def judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A function that writes a page and returns what is told of it."""

    def judge(text: str, **options) -> str:
        (tmp_path / "page.py").write_text(text, encoding="utf-8")
        check.page(tmp_path / "page.py", **options)
        return capsys.readouterr().out

    return judge


def test_a_right_page_becomes_the_model(judged, tmp_path: Path) -> None:
    told = judged(page_of(), keep_it=True)
    assert "test_shape: passes on your model, and finds 0 of 7 broken ones" in told
    assert "test_places_matter: passes on your model, and finds 1 of 7" in told
    assert (
        "your tests find, all together: 2 of 7\nprint_shapes: the ten lines\nvit: correct" in told
    )
    assert "attention weights: the package can record them\nmy_vit.py: MyVision" in told
    assert "norm_layer: it makes every norm\nself_attention: what comes back is as in torch" in told
    kept, _, back = told.partition("my_vit.py: MyVisionTransformer is kept\n")
    assert kept
    assert back.startswith("To go back to the model of your pieces, run the cell of")
    layout = parse((tmp_path / "my_vit.py").read_text(encoding="utf-8"))
    own = [name for name in layout.sections if not layout.is_ours(name)]
    assert own == ["MyVisionTransformer"], "it is made of one piece"
    assert "class Attention(" in layout.sections["MyVisionTransformer"]
    model = load_model(tmp_path / "my_vit.py")
    assert type(model).__name__ == "VisionTransformer"


def test_a_test_that_no_right_model_passes_finds_nothing(judged) -> None:
    told = judged(page_of(("assert not torch.allclose(", "assert torch.allclose(")))
    assert "test_places_matter: does not pass on your model" in told
    assert "your tests find, all together: 1 of 7" in told


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        (
            [("        x = self.encoder(x)\n", "        x = self.encoder.layers(x)\n")],
            "vit: the logits",
        ),
        ([('"After Permute"', '"Permuted"')], "the first is 'Permuted: torch.Size"),
        (
            [
                (
                    "self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))",
                    "self.class_token = nn.Parameter(torch.ones(1, 1, hidden_dim))",
                )
            ],
            "start values: start value of class_token: it must be 0 everywhere",
        ),
        (OUTPUT_ONLY, ASKED),
        ([(" if average_attn_weights else weights", "")], ASKED),
        (
            [("weights.mean(dim=1) if average_attn_weights else weights", "weights")],
            "self_attention: with query, key and value alone, all three different, the tensor of"
            " weights must have shape (3, 5, 5), but has (3, 2, 5, 5) (rule 9)",
        ),
        (
            [("weights.mean(dim=1) if average", "weights.mean(dim=0) if average")],
            " weights must have shape (3, 5, 5), but has (2, 5, 5) (rule 9)",
        ),
        (
            [
                (
                    "            return output, None\n",
                    "            return output, weights.mean(dim=1)\n",
                )
            ],
            "self_attention: with need_weights=False the weights must be None, and they are a",
        ),
        (
            [("    ) -> tuple[Tensor, Tensor | None]:\n", "    ):\n        key = value = query\n")],
            "self_attention: with query, key and value alone, all three different, right shape,"
            " wrong numbers: the output",
        ),
        (
            [("self.ln_2 = norm_layer(hidden_dim)", "self.ln_2 = nn.LayerNorm(hidden_dim, 1e-6)")],
            "norm_layer: it must make every norm (rule 1), and it does not make"
            " encoder.layers.encoder_layer_0.ln_2, encoder.layers.encoder_layer_1.ln_2",
        ),
        (
            [("num_classes=1000,", "num_classes=10,")],
            "arguments: num_classes must be 1000 by default, and it is 10 by default (rule 1)",
        ),
        (
            [
                ('heads["pre_logits"] = nn', 'heads["pre"] = nn'),
                ('heads["pre_logits"].weight', 'heads["pre"].weight'),
                ('heads["pre_logits"].bias', 'heads["pre"].bias'),
            ],
            "start values: not compared: other names than in rule 3 of the specification. Missing:"
            " heads.pre_logits.weight, heads.pre_logits.bias. Not in it: heads.pre.weight, heads",
        ),
        ([("self.ln_2 = ", "self.norm_2 = "), ("self.ln_2(", "self.norm_2(")], "than in rule 4"),
        ([("def test_shape(", "def shape(")], "tests: 2, and 3 are needed"),
        ([("== (2, 10)", "== (2, 11)")], "test_shape: does not pass on your model (it fails)"),
        (
            [("assert (model(", "assert hasattr(model, 'show') and (model(")],
            "does not pass on a right model: it asks something that the specification does not say",
        ),
        ([("class VisionTransformer(", "class ViT(")], "the file must define a class"),
        ([("def split(", "my_attention = 3\n\n\ndef split(")], "has a section of that name"),
        ([("import math", "import math\n1 / 0")], "page.py cannot be run: your code raised Zero"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_kept(judged, tmp_path: Path, edits, words: str) -> None:
    told = judged(page_of(*edits), keep_it=True)
    assert words in told
    assert not (tmp_path / "my_vit.py").exists()


def test_no_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check.page(tmp_path / "nothing.py")
    assert "there is no file" in capsys.readouterr().out
