"""Right is own code that computes the same everywhere: in the checks of pieces and in check.vit."""

import functools
import importlib
import inspect
import linecache
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from helpers import some
from published_vits import Plain, plain
from torch import nn

import mnist_vit
from mnist_vit import check, model
from mnist_vit.course.checking import verdict
from mnist_vit.course.whole_vit import judge_vit


def edited(exercise: str, *changes: tuple[str, str]) -> Any:
    """The solution after changes of its text, as a learner's own."""
    text = check.EXERCISES[exercise].source
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    answer = check.EXERCISES[exercise].answer
    names = dict(vars(importlib.import_module(answer.__module__))) | {"__name__": "__main__"}
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(True), "<cell>")
    exec(compile(text, "<cell>", "exec"), names)
    return names[answer.__name__]


INPUTS = {  # the first line that uses the input, and the input's name
    "mlp_block": ('x = self["0"](x)', "x"),
    "attention": ("scores = ", "q"),
    "split_heads": ("return ", "x"),
    "multi_head_attention": ("n, seq_length, _ = query.shape", "query"),
    "encoder_block": ("x = self.ln_1(input)", "input"),
    "encoder": ("x = input + self.pos_embedding", "input"),
    "vision_transformer": ("x = self.conv_proj(x)", "x"),
}
CHANGES = {  # what is done to the input first, the words that must be told
    "clamped": ("{x} = {x}.clamp(-5, 5)", "large"),
    "rounded": ("{x} = {x} + ({x}.round(decimals=4) - {x}).detach()", ""),
    "cut off": ("{x} = {x}.detach()", "gradient"),
    "wrong alone": ("{x} = {x} * (1 + (len({x}) == 1))", "1 "),
    "wrong above 64": ("{x} = {x} * (1 + (len({x}) > 64))", "at once"),
    "wrong above 256": ("{x} = {x} * (1 + (len({x}) > 256))", "at once"),
    "wrong without gradients": ("{x} = {x} * (1 + (not torch.is_grad_enabled()))", "no_grad"),
    "mixed above 4": ("{x} = {x} - {x}.mean(0, keepdim=True) * (len({x}) > 4)", "at once"),
}
MODULES = ("mlp_block", "multi_head_attention", "encoder_block", "encoder")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("exercise", some([*MODULES, "vision_transformer"], "encoder_block"))
def test_an_answer_that_is_right_for_the_checks_inputs_only(exercise: str, change: str) -> None:
    line, name = INPUTS[exercise]
    text, words = CHANGES[change]
    passed, said = verdict(
        check.EXERCISES[exercise],
        edited(exercise, (line, f"{text.format(x=name)}\n        {line}")),
    )
    assert not passed
    assert words in said or exercise == "mlp_block", said  # it tries many tokens by itself
    assert "cannot be compared" not in said


@pytest.mark.parametrize("exercise", INPUTS)
def test_right_stays_right(exercise: str) -> None:
    passed, said = verdict(check.EXERCISES[exercise], edited(exercise))
    assert passed, said


ZERO = "\n        with torch.no_grad():\n            for p in self.parameters(): p.{}"
STARTS = {"encoder_block": "self.mlp = MyMLPBlock(hidden_dim, mlp_dim, dropout)"}
STARTS["multi_head_attention"] = "nn.init.zeros_(self.out_proj.bias)"
STARTS["encoder"] = "self.ln = norm_layer(hidden_dim)"
STARTS["vision_transformer"] = 'nn.init.zeros_(heads["head"].bias)'
VALUES = {"zero": "zero_()", "one": "fill_(1)", "ten times": "mul_(10)", "nan": "fill_(torch.nan)"}


@pytest.mark.parametrize("value", some(VALUES, "zero"))
@pytest.mark.parametrize("exercise", some(STARTS, "encoder_block"))
def test_start_values_are_compared(exercise: str, value: str) -> None:
    line = STARTS[exercise]
    wrong = edited(exercise, (line, line + ZERO.format(VALUES[value])))
    passed, said = verdict(check.EXERCISES[exercise], wrong)
    assert not passed
    assert "start value" in said, said


OPTIONS = "dropout, attention_dropout, norm_layer)"
IGNORED = {
    "dropout": ("vision_transformer", (OPTIONS, "0.0, attention_dropout, norm_layer)")),
    "attention_dropout": ("vision_transformer", (OPTIONS, "dropout, 0.0, norm_layer)")),
    "dropout 1": ("vision_transformer", (OPTIONS, "attention_dropout, dropout, norm_layer)")),
    "norm_layer": ("vision_transformer", (OPTIONS, "dropout, attention_dropout)")),
    "start value of class_token": (
        "vision_transformer",
        ("torch.zeros(1, 1,", "torch.randn(1, 1,"),
    ),
    "start value of heads": (
        "vision_transformer",
        ('nn.init.zeros_(heads["head"].weight)', "pass"),
    ),
    "start value": ("encoder", (".normal_(std=0.02)", ".zero_()")),
    "start value of in_proj_weight": (
        "multi_head_attention",
        ("xavier_uniform_(self.in_proj_weight)", "xavier_normal_(self.in_proj_weight)"),
    ),
    "start value of conv_proj.weight": (
        "vision_transformer",
        ("std = math.sqrt(1 / (in_channels * p * p))", "std = 0.02"),
    ),
    "start value of pos_embedding": ("encoder", (".normal_(std=0.02)", ".normal_()")),
}


@pytest.mark.parametrize("case", some(IGNORED, "dropout", "start value of in_proj_weight"))
def test_no_argument_is_ignored(case: str) -> None:
    exercise, change = IGNORED[case]
    passed, said = verdict(check.EXERCISES[exercise], edited(exercise, change))
    assert not passed
    assert case.partition(" 1")[0] in said, said


# ------------------------------------------------------------------------------------- own code


def subclass(kind: type) -> Any:
    return type("Mine", (kind,), {})


def function(kind: Any) -> Any:
    return lambda *args, **options: kind(*args, **options)


def inside(kind: Any) -> Any:
    """A class whose ``__new__`` gives ours."""
    return type("Mine", (), {"__new__": lambda cls, *args, **options: kind(*args, **options)})


OURS: dict[str, Any] = {
    "mlp_block": model.MLPBlock,
    "multi_head_attention": model.MultiHeadAttention,
    "encoder_block": model.EncoderBlock,
    "encoder": model.Encoder,
    "vision_transformer": model.VisionTransformer,
}


@pytest.mark.parametrize("how", [subclass, function, inside])
@pytest.mark.parametrize("exercise", some(OURS, "mlp_block", "encoder"))
def test_ours_by_another_name_is_not_own(exercise: str, how: Callable[[Any], Any]) -> None:
    for kind in (OURS[exercise], check.EXERCISES[exercise].answer):
        passed, said = verdict(check.EXERCISES[exercise], how(kind), own=True)
        assert not passed
        assert "should be your own" in said, said


def test_functions_that_call_ours_are_not_own() -> None:
    for name in ("gelu", "attention", "patchify", "split_heads"):
        ours = check.EXERCISES[name].answer
        passed, said = verdict(
            check.EXERCISES[name], lambda *args, ours=ours: ours(*args), own=True
        )
        assert not passed
        assert "should be your own" in said, said


def test_our_code_is_not_own_in_whatever_it_is_wrapped() -> None:
    ours = check.EXERCISES["attention"].answer
    callable_object = type("Own", (), {"__call__": staticmethod(ours)})()
    copied = types.FunctionType(ours.__code__, ours.__globals__, "my_attention")
    for answer in (copied, functools.partial(ours), callable_object):
        passed, said = verdict(check.EXERCISES["attention"], answer, own=True)
        assert not passed
        assert "should be your own" in said, said
    block = edited("mlp_block")
    block.forward = check.EXERCISES["mlp_block"].answer.forward
    assert not verdict(check.EXERCISES["mlp_block"], block, own=True)[0]


def test_an_answer_that_keeps_its_first_result_is_wrong() -> None:
    line, x = INPUTS["mlp_block"]
    kept = f"{x} = self.__dict__.setdefault(str(tuple({x}.shape)), {x})\n        {line}"
    passed, said = verdict(check.EXERCISES["mlp_block"], edited("mlp_block", (line, kept)))
    assert not passed
    assert "other numbers of the same shape" in said


def test_what_an_exception_says_is_printed_safely() -> None:
    def answer(*_: Any) -> None:
        raise ValueError("\x1b[2J\rcorrect")

    passed, said = verdict(check.EXERCISES["attention"], answer)
    assert not passed
    assert said.isprintable()


def test_settings_that_an_answer_changes_are_put_back() -> None:
    def settings() -> tuple[Any, ...]:
        return (
            torch.get_float32_matmul_precision(),
            torch.backends.mha.get_fastpath_enabled(),
            np.geterr(),
            float(torch.tensor(1e-40) * 0.5) > 0,
        )

    def answer(*_: Any) -> None:
        torch.set_float32_matmul_precision("medium")
        torch.backends.mha.set_fastpath_enabled(False)
        np.seterr(all="raise")
        torch.set_flush_denormal(True)

    before = settings()
    verdict(check.EXERCISES["attention"], answer)
    assert settings() == before


def test_a_folder_that_was_deleted_is_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert verdict(check.EXERCISES["attention"], edited("attention"))[0]


def test_torchs_own_layer_is_not_own() -> None:
    class Mine(nn.MultiheadAttention):
        def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
            super().__init__(embed_dim, num_heads, dropout, batch_first=True)

    passed, said = verdict(check.EXERCISES["multi_head_attention"], Mine, own=True)
    assert not passed
    assert "nn.MultiheadAttention" in said
    for exercise, kind in {
        "mlp_block": "MLPBlock",
        "encoder_block": "EncoderBlock",
        "encoder": "Encoder",
    }.items():
        theirs = getattr(torchvision.models.vision_transformer, kind)
        for answer in (theirs, subclass(theirs)):
            passed, said = verdict(check.EXERCISES[exercise], answer, own=True)
            assert not passed
            assert "torchvision" in said


def test_pieces_that_stand_in_are_no_forgery() -> None:
    """A block of one's own that holds our MLP is own code: notebook 04 alone is like that."""
    for exercise in ("encoder_block", "encoder", "vision_transformer"):
        passed, said = verdict(check.EXERCISES[exercise], edited(exercise), own=True)
        assert passed, said


# ------------------------------------------------------------------------------------- check.vit


def pictures(change: Callable) -> type:
    return plain(patches=lambda s, x: Plain.patches(s, change(x)))


def given(change: Callable, base: Any = mnist_vit.VisionTransformer) -> type:
    """torchvision's arguments, of which ``change`` makes others."""
    arguments = inspect.signature(torchvision.models.VisionTransformer).parameters

    class Mine(nn.Module):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__()
            bound = dict(zip(arguments, args, strict=False)) | options
            made = base(**(bound | change(bound)))
            self.__dict__.update(made.__dict__)
            self.forward = made.forward

    Mine.__signature__ = inspect.signature(torchvision.models.VisionTransformer)  # type: ignore
    return Mine


def kept_by_shape() -> type:
    kept: dict[Any, torch.Tensor] = {}
    return pictures(lambda x: kept.setdefault((x.shape, x.requires_grad, float(x.abs().sum())), x))


def started(change: Callable) -> type:
    class Mine(Plain):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            with torch.no_grad():
                for parameter in self.parameters():
                    change(parameter)

    return Mine


def holding(kind: type) -> type:
    class Mine(nn.Module):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__()
            self.inner = kind(*args, **options)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    Mine.__signature__ = inspect.signature(torchvision.models.VisionTransformer)  # type: ignore
    return Mine


def fixed(*sizes: int) -> type:
    """A class whose sizes are written into it; those that it is given count for nothing."""

    class Mine(Plain):
        def __init__(
            self, image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, **more
        ) -> None:
            given = (image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim)
            super().__init__(*sizes, *given[len(sizes) :], **more)

    return Mine


VITS = {
    "one that holds ours": (lambda: holding(mnist_vit.VisionTransformer), "ours"),
    "sizes written into it": (lambda: fixed(12, 4, 2, 3, 18, 26), "image_size=20"),
    "as many blocks as here": (lambda: fixed(12, 4, 2), "num_layers=3"),
    "in float32": (lambda: pictures(lambda x: x * (1 + (x.dtype == torch.float32))), "float32"),
    "kept by shape": (lambda: kept_by_shape(), "as many other pictures"),
    "a subclass of ours": (lambda: subclass(mnist_vit.VisionTransformer), "subclass of ours"),
    "clamped to 1": (lambda: pictures(lambda x: x.clamp(-1, 1)), "large"),
    "clamped to 10": (lambda: pictures(lambda x: x.clamp(-10, 10)), "large"),
    "rounded": (lambda: pictures(lambda x: x.round(decimals=8)), "gradient of the pictures"),
    "cut off": (lambda: pictures(lambda x: x.detach()), "gradient of the pictures"),
    "alone": (lambda: pictures(lambda x: x * (1 + (len(x) == 1))), "1 picture"),
    "squeezed": (lambda: plain(pool=lambda s, x: x[:, 0].squeeze()), "1 picture"),
    "above 64": (lambda: pictures(lambda x: x * (1 + (len(x) > 64))), "pictures at once"),
    "above 256": (lambda: pictures(lambda x: x * (1 + (len(x) > 256))), "pictures at once"),
    "no multiple of 4": (lambda: pictures(lambda x: x * (1 + (len(x) % 4 > 0))), "picture"),
    "mixed": (lambda: pictures(lambda x: x - x.mean(0) * (len(x) > 4)), "pictures at once"),
    "no_grad": (lambda: pictures(lambda x: x * (2 - torch.is_grad_enabled())), "no_grad"),
    "no dropout": (lambda: given(lambda o: {"dropout": 0.0}), "dropout"),
    "no attention_dropout": (
        lambda: given(lambda o: {"attention_dropout": 0.0}),
        "attention_dropout",
    ),
    "half dropout": (lambda: given(lambda o: {"dropout": o["dropout"] / 2}), "dropout"),
    "zero": (lambda: started(lambda p: p.zero_()), "start"),
    "constant": (lambda: started(lambda p: p.fill_(0.02)), "start"),
    "nan": (lambda: started(lambda p: p.fill_(torch.nan)), "start"),
    "huge": (lambda: started(lambda p: p.mul_(1e6)), "start"),
}


@pytest.mark.parametrize(
    "case",
    some(VITS, "a subclass of ours", "rounded", "above 64", "no attention_dropout", "zero"),
)
def test_vit_rejects_what_is_right_on_four_small_pictures_only(case: str) -> None:
    make, words = VITS[case]
    passed, lines = judge_vit(make())
    assert not passed, lines
    assert words in "\n".join(lines), lines
    assert "cannot be compared" not in lines[0]


def test_the_same_code_at_the_same_line_is_own() -> None:
    ours = check.EXERCISES["coin"].answer
    same = ours.__code__.replace(co_filename="<cell>")  # as after hint 3: equal, and typed in
    assert same == ours.__code__
    answer = types.FunctionType(same, dict(ours.__globals__), "my_coin")
    passed, said = verdict(check.EXERCISES["coin"], answer, own=True)
    assert passed, said
