"""Relevance: conserved in every family of models, equal to the paper's formulas step by step, and
an error for what has no rule."""

from collections.abc import Callable
from functools import partial
from typing import Any

import explicit_lrp
import pytest
import test_other_vits as others
import torch
import torch.nn.functional as F
from helpers import randomise
from torch import Tensor, nn
from torchvision import models

from mnist_vit import MultiHeadAttention, VisionTransformer
from mnist_vit.relevance import (
    _nodes,
    _operation,
    _register_rules,
    class_scores,
    integrated_gradients,
    relevance,
)
from mnist_vit.tokens import at_tokens, patch_grid
from tools import contest

timm = others.timm
transformers = others.transformers


class Pooled(nn.Module):
    """A model of Hugging Face without a class head; what it pools are the logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).pooler_output


def with_logits(library: str, family: str) -> tuple[nn.Module, Tensor]:
    model, images, *_ = others.built(library, family)
    if library == "Hugging Face" and not hasattr(model, "classifier"):
        model = Pooled(model)
    return model.double(), images.double()


def sizes(**more: Any) -> dict[str, Any]:
    numbers = {"image_size": 8, "patch_size": 2, "num_layers": 2, "num_heads": 2}
    return numbers | {"hidden_dim": 8, "mlp_dim": 16, "num_classes": 3} | more


def scaled(model: nn.Module) -> nn.Module:
    """With random weights of a size that lets no softmax be even."""
    randomise(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 8
    return model.double().eval()


def ours(**more: Any) -> nn.Module:
    return scaled(VisionTransformer(**sizes(**more)))


def theirs() -> nn.Module:
    return scaled(models.VisionTransformer(**sizes()))


def from_scratch() -> nn.Module:
    """Ours, with attention that is written out."""
    model = VisionTransformer(**sizes())
    for block in model.encoder.layers:
        block.self_attention = MultiHeadAttention(8, 2, 0.0)
    return scaled(model)


PICTURES = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()


class Balance:
    """What a score is made of: its tokens, its biases and the constant parts of each softmax."""

    def __init__(self, model: nn.Module, images: Tensor) -> None:
        pixels = images.clone().requires_grad_()
        with at_tokens(model) as seen:
            self.scores = class_scores(model, pixels, 1)
        _register_rules(model, self.scores, seen[0], pixels)
        self.constants = torch.zeros(())
        for node in _nodes(self.scores, seen[0]):
            if _operation(node) == "Attention":
                inputs = [node._saved_query, node._saved_key, node._saved_value]
                node.register_hook(partial(self.count, node._saved_output, inputs))
            elif _operation(node) in ("Softmax", "SafeSoftmax"):
                inputs = [node._saved_result.log()]
                node.register_hook(partial(self.count, node._saved_result, inputs))
        before = {getattr(node, "variable", None) for node in _nodes(seen[0], pixels)}
        biases = []
        for name, parameter in model.named_parameters():
            if "bias" in name and parameter.requires_grad and parameter not in before:
                biases.append(parameter)
        leaves = [seen[0], *biases]
        found = torch.autograd.grad(self.scores.sum(), leaves, allow_unused=True)
        self.tokens = (leaves[0] * found[0]).sum()
        self.biases = torch.zeros(())
        for bias, gradient in zip(biases, found[1:], strict=True):
            if gradient is not None:
                self.biases = self.biases + (bias * gradient).sum()

    def count(self, output: Tensor, inputs: list[Tensor], gradients: tuple, given: tuple) -> None:
        """What does not go on from the output of a softmax to its inputs."""
        self.constants = self.constants + (output * given[0]).sum()
        for one, gradient in zip(inputs, gradients[: len(inputs)], strict=True):
            if gradient is not None:
                self.constants = self.constants - (one * gradient).sum()

    def check(self) -> None:
        parts = torch.stack([self.tokens, self.biases, self.constants])
        torch.testing.assert_close(parts.sum(), self.scores.sum(), rtol=1e-9, atol=1e-9)
        assert parts.abs().min() > 1e-6


def prepared(library: str, family: str) -> tuple[nn.Module, Tensor]:
    """A model for a balance: what makes queries of no token is a factor, and no summand."""
    model, images = with_logits(library, family)
    for name, parameter in model.named_parameters():
        if "attn_pool.q" in name or "latent" in name or "head.attention.in_proj" in name:
            parameter.requires_grad_(False)
            if "bias" in name:
                parameter.data.zero_()
    return model, images


FIRST = {("timm", "ViT"), ("timm", "EVA02"), ("timm", "SigLIP"), ("timm", "DINOv2 with registers")}
FIRST |= {("Hugging Face", "ViT"), ("Hugging Face", "CLIP")}
FAMILIES: list[Any] = []
for case in others.CASES:
    FAMILIES.append(case if case in FIRST else pytest.param(*case, marks=pytest.mark.full))


@pytest.mark.parametrize(("library", "family"), FAMILIES)
def test_conserved_in_each_family(library: str, family: str) -> None:
    model, images = prepared(library, family)
    Balance(model, images).check()
    found = relevance(model, images)
    rows, columns = patch_grid(model, images)
    assert found.shape == (2, rows * columns)
    assert found.abs().min() > 0


@pytest.mark.parametrize(
    "make",
    [
        theirs,
        from_scratch,
        ours,
        partial(ours, pool="mean"),
        partial(ours, representation_size=4),
        partial(ours, num_layers=1),
    ],
)
def test_conserved_in_torchvisions_model_and_ours(make: Callable[[], nn.Module]) -> None:
    Balance(make(), PICTURES).check()


def test_attention_without_the_fused_call_has_the_same_relevance() -> None:
    torch.testing.assert_close(relevance(from_scratch(), PICTURES), relevance(ours(), PICTURES))
    config = transformers.ViTConfig(**others.SIZES)
    kind = transformers.ViTForImageClassification
    fused = others.sharp(kind._from_config(config, attn_implementation="sdpa")).double()
    eager = kind._from_config(config, attn_implementation="eager").eval().double()
    eager.load_state_dict(fused.state_dict())
    images = torch.randn(1, 3, 64, 64).double()
    torch.testing.assert_close(relevance(eager, images), relevance(fused, images))


@pytest.mark.parametrize("steps", ["by hand", "lxt"])
def test_equal_to_the_formulas_of_the_paper_step_by_step(steps: str) -> None:
    """By hand, and by the library of its authors, which adds 1e-6 to what it divides by."""
    model = theirs()
    by = explicit_lrp.ByHand
    if steps == "lxt":
        by = pytest.importorskip("lxt.explicit.functional", reason="lxt comes with pip install lxt")
    with at_tokens(model) as seen:
        model(PICTURES)
    expected = explicit_lrp.relevance_of_tokens(model, seen[0], 1, by)[:, 1:]
    found = relevance(model, PICTURES, 1)
    limit = {"by hand": 1e-12, "lxt": 1e-3}[steps]
    assert (found - expected).abs().max() < limit * expected.abs().max()


def keep(seen: list[Tensor], part: nn.Module, given: tuple[Tensor]) -> None:
    seen.append(given[0])


def test_a_norm_loses_all_without_its_rule() -> None:
    """Gradient × input of the last norm adds up to nothing; by the rule, to the logit."""
    model = ours()
    with torch.no_grad():
        model.encoder.ln.bias.zero_()
        model.heads.head.bias.zero_()
    for with_rule in (False, True):
        seen: list[Tensor] = []
        handle = model.encoder.ln.register_forward_pre_hook(partial(keep, seen))
        scores = class_scores(model, PICTURES.clone().requires_grad_(), 1)
        handle.remove()
        if with_rule:
            _register_rules(model, scores, seen[0], PICTURES)
        (gradient,) = torch.autograd.grad(scores.sum(), seen[0])
        expected = scores.sum() if with_rule else torch.zeros_like(scores.sum())
        torch.testing.assert_close((gradient * seen[0]).sum(), expected, rtol=1e-9, atol=1e-4)
    assert scores.abs().min() > 1e-2


class OwnNorm(nn.LayerNorm):
    """Layer norm written by hand, in two ways."""

    way = "sqrt"

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True) + self.eps
        if self.way == "sqrt":
            return centred / variance.sqrt() * self.weight + self.bias
        return centred * variance.rsqrt() * self.weight + self.bias


@pytest.mark.parametrize("way", ["sqrt", "rsqrt"])
def test_a_norm_written_by_hand_has_the_rule_too(way: str) -> None:
    model = ours(norm_layer=partial(OwnNorm, eps=1e-6))
    for part in model.modules():
        if isinstance(part, OwnNorm):
            part.way = way
    torch.testing.assert_close(relevance(model, PICTURES), relevance(ours(), PICTURES))


def test_a_gate_of_its_own_tokens_is_an_activation() -> None:
    """QuickGELU, x σ(1.702 x), is a product of two; and SiLU written by hand."""

    class Gate(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.sigmoid(x)

    def with_activation(activation: nn.Module) -> nn.Module:
        model = ours()
        for block in model.encoder.layers:
            block.mlp[1] = activation
        return model

    by_hand = relevance(with_activation(Gate()), PICTURES)
    torch.testing.assert_close(by_hand, relevance(with_activation(nn.SiLU()), PICTURES))


# --- the arguments


def test_a_class_or_one_for_each_image_or_one_against_another() -> None:
    model = ours()
    second = relevance(model, PICTURES, 2)
    first = relevance(model, PICTURES, [0, 0, 0])
    with torch.no_grad():
        predicted = model(PICTURES).argmax(dim=1)
    assert torch.equal(relevance(model, PICTURES), relevance(model, PICTURES, predicted))
    torch.testing.assert_close(relevance(model, PICTURES, 2, against=0), second - first)
    mixed = relevance(model, PICTURES, torch.tensor([0, 2, 0]), batch_size=1)
    torch.testing.assert_close(mixed, torch.stack([first[0], second[1], first[2]]))
    for wrong in (3, -1):
        with pytest.raises(ValueError, match="a class must be 0 to 2"):
            relevance(model, PICTURES, wrong)
    with pytest.raises(ValueError, match="one for each of 3 images"):
        relevance(model, PICTURES, [0, 1])


def test_the_model_is_left_as_it_was() -> None:
    """Frozen or not, in train mode or under no_grad; its forward pass is its own."""
    model = ours(dropout=0.5)
    expected = relevance(model, PICTURES)
    model.train().requires_grad_(False)
    with torch.no_grad():
        torch.testing.assert_close(relevance(model, PICTURES), expected)
    assert model.training
    assert all(not parameter.requires_grad for parameter in model.parameters())
    model.requires_grad_(True)
    relevance(model, PICTURES.float())
    assert all(parameter.grad is None for parameter in model.parameters())
    for part in model.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks
    assert not PICTURES.requires_grad


# --- what has no relevance is an error


def test_an_operation_without_a_rule_is_named() -> None:
    model = ours()
    model.encoder.layers[1].mlp[1] = nn.Softplus()
    with pytest.raises(ValueError, match=r"no rule for Softplus.*integrated_gradients"):
        relevance(model, PICTURES)

    class Inverse(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 1 / (2 + x.square())

    model.encoder.layers[1].mlp[1] = nn.Sigmoid()
    with pytest.raises(ValueError, match="no rule for Sigmoid"):
        relevance(model, PICTURES)
    model.encoder.layers[1].mlp[1] = Inverse()
    with pytest.raises(ValueError, match="no rule for Pow"):
        relevance(model, PICTURES)


@pytest.mark.full
def test_a_compiled_part_is_refused() -> None:
    model = ours()
    model.encoder.layers[0].compile()
    with pytest.raises(ValueError, match=r"was compiled.*_orig_mod"):
        relevance(model, PICTURES)


@pytest.mark.full
def test_a_compiled_function_has_no_rule() -> None:
    model = ours()
    model.encoder.ln.forward = torch.compile(model.encoder.ln.forward, backend="aot_eager")
    with pytest.raises(ValueError, match="no rule for CompiledFunction"):
        relevance(model, PICTURES)


class Shuffled(nn.Module):
    """Patches in another order."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        model.encoder.dropout.register_forward_hook(self.change)

    def change(self, part: nn.Module, given: tuple, tokens: Tensor) -> Tensor:
        patches = tokens[:, 1:].unflatten(1, (4, 4)).transpose(1, 2).flatten(1, 2)
        return torch.cat([tokens[:, :1], patches], dim=1)

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images)


def test_patches_in_another_order_are_an_error() -> None:
    with pytest.raises(ValueError, match="do not end with 4 × 4 patches, row by row"):
        relevance(Shuffled(ours()), PICTURES)


class Beside(nn.Module):
    """A model that also uses its images in another way."""

    def __init__(self) -> None:
        super().__init__()
        self.model = ours()

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images) + images.mean(dim=(2, 3))


def test_images_that_are_used_beside_the_tokens_are_an_error() -> None:
    with pytest.raises(ValueError, match="uses its images beside the tokens"):
        relevance(Beside(), PICTURES)


@pytest.mark.parametrize(
    ("name", "more", "problem"),
    [
        ("hiera_tiny_224", {"embed_dim": 12, "num_heads": 1}, "row by row"),
        ("resnet18", {}, "20 convolutions"),
    ],
)
def test_a_model_without_a_row_of_patches_is_an_error(name: str, more: dict, problem: str) -> None:
    model = timm.create_model(name, **more).eval()
    with pytest.raises(ValueError, match=problem):
        relevance(model, torch.zeros(1, 3, 224, 224))


def test_outputs_that_are_no_logits_or_nan_are_an_error() -> None:
    model, images, *_ = others.built("Hugging Face", "CLIP")
    with pytest.raises(ValueError, match="must return logits"):
        relevance(model, images)
    model = ours()
    with torch.no_grad():
        model.class_token.fill_(torch.nan)
    with pytest.raises(ValueError, match="outputs are NaN"):
        relevance(model, PICTURES)


# --- integrated gradients


def test_integrated_gradients_add_up_to_the_difference_of_logits() -> None:
    model = ours()
    reference = torch.full((1, 3, 1, 1), 0.3).double()
    found = integrated_gradients(model, PICTURES, reference, 1, steps=200, batch_size=2)
    with torch.no_grad():
        difference = class_scores(model, PICTURES, 1)
        difference -= class_scores(model, reference.expand(PICTURES.shape), 1)
    assert found.shape == (3, 16)
    torch.testing.assert_close(found.sum(dim=1), difference, rtol=1e-3, atol=1e-3)
    only = PICTURES.clone()
    only[:, :, :, 2:] = reference
    outside = integrated_gradients(model, only, reference, 1).view(3, 4, 4)[:, :, 1:]
    assert outside.abs().max() == 0, "a patch that is as the reference has nothing"


def test_integrated_gradients_as_captum_has_them() -> None:
    from captum import attr as captum

    model = ours()
    black = torch.zeros_like(PICTURES)
    theirs_ = captum.IntegratedGradients(model).attribute(
        PICTURES, black, target=1, n_steps=32, method="riemann_middle"
    )
    by_patch = 4 * F.avg_pool2d(theirs_.sum(dim=1), 2).flatten(1)
    torch.testing.assert_close(integrated_gradients(model, PICTURES, black, 1), by_patch.detach())


# --- docs/relevance.md


def table() -> str:
    """Each family, and how far its parts are from its score, by the largest of them."""
    lines = ["| family | tokens | biases | constants | score minus their sum |", "| --- " * 5 + "|"]
    for library, family in [*others.CASES, ("torchvision, this course", "")]:
        model, images = (theirs(), PICTURES) if not family else prepared(library, family)
        balance = Balance(model, images)
        parts = torch.stack([balance.tokens, balance.biases, balance.constants])
        gap = (parts.sum() - balance.scores.sum()).abs() / parts.abs().max()
        shown = " | ".join(f"{part:.3f}" for part in parts.tolist())
        lines.append(f"| {library} {family}".rstrip() + f" | {shown} | {gap:.0e} |")
    return "\n".join(lines)


def test_the_tables_in_the_docs_have_these_families_and_what_is_stored() -> None:
    page = contest.PAGE.read_text(encoding="utf-8")
    families = page.split("<!-- families -->")[1].split("<!-- /families -->")[0]
    rows = [line.split(" | ") for line in families.splitlines()[3:]]
    names = [row[0].removeprefix("| ") for row in rows]
    assert names == [*(" ".join(case) for case in others.CASES), "torchvision, this course"]
    assert all(float(row[4].removesuffix(" |")) < 1e-12 for row in rows)
    assert contest.filled(page) == page, "python -m tools contest"


if __name__ == "__main__":
    print(table())
