"""The six tasks of docs/: each runs alone, the answers print what their page says, and half an answer does not pass."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

import pytest
from helpers import ROOT

NUMBERS = range(1, 7)


def sections(name: str) -> list[str]:
    """What stands before the first task, then the six tasks."""
    return re.split(r"^## Task (?=\d)", (ROOT / "docs" / name).read_text(encoding="utf-8"), flags=re.MULTILINE)


TASKS, ANSWERS = sections("tasks.md"), sections("tasks_answers.md")


def blocks(language: str, section: str) -> str:
    """All code blocks of a section, as one text."""
    return "".join(re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))


def printed(code: str, names: dict[str, Any]) -> str:
    """What the code prints; its names are added to those given."""
    with redirect_stdout(io.StringIO()) as out:
        exec(code, names)
    return out.getvalue()


@pytest.fixture(scope="module")
def start() -> dict[str, Any]:
    """The names with which every task begins."""
    names: dict[str, Any] = {}
    printed(blocks("python", TASKS[0]), names)
    return names


def test_there_are_two_of_each_kind() -> None:
    headings = [re.match(r"(\d)\. (\w+): .* ★+ \(\d+ minutes", section).groups() for section in TASKS[1:]]
    assert [int(number) for number, _ in headings] == list(NUMBERS)
    assert sorted(kind for _, kind in headings) == ["Debug"] * 2 + ["Modify"] * 2 + ["Predict"] * 2
    assert [int(section[0]) for section in ANSWERS[1:]] == list(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_answer_prints_what_the_page_says(number: int, start: dict[str, Any]) -> None:
    code = blocks("python", TASKS[number]) + blocks("python", ANSWERS[number])
    found = printed(code, dict(start))
    assert found == blocks("text", ANSWERS[number])
    if "done_" in code:
        assert found.endswith("\ndone\n")


HEAD = """
class Head(TwoLayerHead):
    def __init__(self):
        super().__init__()
        {}
done_2(Head)
"""
TURNED = """
def turned(vit):
    new = copy.deepcopy(vit)
    p, grid = new.encoder.pos_embedding, math.isqrt(vit.seq_length - 1)
    {}
    return new
done_3(turned)
"""
KERNEL = "new.conv_proj.weight.copy_(vit.conv_proj.weight.rot90({}, dims=(2, 3)));"
PLACES = "p[:, 1:] = p[:, 1:].clone().unflatten(1, (grid, grid)).rot90({}, dims=(1, 2)).flatten(1, 2)"
MASK = """
class Attention(nn.Module):
    def __init__(self, layer, hidden):
        super().__init__()
        self.layer, self.ignored = layer, F.pad(hidden, (1, 0))[:, None, None]

    def forward(self, x, key, value, **_):
        qkv = F.linear(x, self.layer.in_proj_weight, self.layer.in_proj_bias)
        q, k, v = qkv.unflatten(-1, (3, self.layer.num_heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = {}
        return self.layer.out_proj((weights @ v).transpose(1, 2).flatten(2)), None

def hide_any(vit, images, hidden):
    layers = [block.self_attention for block in vit.encoder.layers]
    for block in vit.encoder.layers:
        block.self_attention = Attention(block.self_attention, hidden)
    logits = vit(images)
    for block, layer in zip(vit.encoder.layers, layers):
        block.self_attention = layer
    return logits
done_6(hide_any)
"""


@pytest.mark.parametrize(
    ("number", "answer", "verdict"),
    [
        (2, "done_2(TwoLayerHead)", "not yet"),
        (2, HEAD.format("[part.reset_parameters() for part in self.heads[::2]]"), "not yet"),
        (2, HEAD.format("nn.init.normal_(self.heads[2].weight)"), "done"),
        (3, TURNED.format(KERNEL.format(1)), "not yet"),
        (3, TURNED.format(PLACES.format(1)), "not yet"),
        (3, TURNED.format(KERNEL.format(-1) + PLACES.format(-1)), "not yet"),
        (3, TURNED.format(KERNEL.format(1) + PLACES.format(1)), "done"),
        (5, "done_5(importance, left)", "random patches 0.88, without the map's 0.90\nnot yet"),
        (6, MASK.format("scores.masked_fill(self.ignored, -math.inf).softmax(dim=-1)"), "done"),
        (6, MASK.format("scores.softmax(dim=-1).masked_fill(self.ignored, 0)"), "not yet"),
        (6, "done_6(lambda vit, x, h: torch.cat([hide(vit, *one) for one in zip(x.split(1), h.split(1))]))", "not yet"),
    ],
)
def test_done_means_done(number: int, answer: str, verdict: str, start: dict[str, Any]) -> None:
    """Other right answers are accepted; a half, a wrong direction and what the page calls wrong are not."""
    names = dict(start)
    printed(blocks("python", TASKS[number]), names)
    assert printed(answer, names).endswith(f"{verdict}\n")


def test_patches_twice_and_the_class_token_once_change_the_logits(start: dict[str, Any]) -> None:
    names = dict(start)
    printed(blocks("python", TASKS[4]), names)
    twice = "first, _ = (vit := copy.deepcopy(model)).encoder.layers\n"
    twice += "first.register_forward_pre_hook(lambda _, args: torch.cat([args[0], args[0][:, 1:]], dim=1))\n"
    assert printed(twice + "print(torch.allclose(vit(some), logits, atol=1e-3))", names) == "False\n"
