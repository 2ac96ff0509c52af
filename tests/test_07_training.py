"""The checks of notebook 07 accept right answers in other styles; and the stored rivals are those
of the script."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import NOTEBOOKS, ROOT, judged, read, reject, told_without
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import get_ema_multi_avg_fn

import mnist_vit
from experiments import baselines, one_loop
from mnist_vit import check
from mnist_vit.check import EXERCISES
from mnist_vit.course import ladder
from mnist_vit.course.checking import verdict
from mnist_vit.course.nb07_training.diagnose import HIDDEN
from mnist_vit.course.nb07_training.illnesses import curves
from mnist_vit.course.nb07_training.training_loop import my_training_loop
from mnist_vit.course.nb07_training.training_step import my_training_step
from mnist_vit.course.own_weights import SIZES
from mnist_vit.data import Loader, load_embedded
from mnist_vit.errors import WeightsError
from mnist_vit.model import VisionTransformer
from mnist_vit.training import accuracy_and_loss, fit, schedule


def entropy_by_loop(logits: Tensor, labels: Tensor) -> Tensor:
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        total = total + torch.logsumexp(row, dim=0) - row[label]
    return total / len(labels)


def entropy_careful(logits: Tensor, labels: Tensor) -> Tensor:
    z = logits - logits.amax(dim=1, keepdim=True)  # so that exp cannot overflow
    return torch.mean(z.exp().sum(dim=1).log() - z[range(len(z)), labels])


def entropy_naive(logits: Tensor, labels: Tensor) -> Tensor:
    e = torch.exp(logits)
    p = e / e.sum(dim=1, keepdim=True)
    return torch.mean(-torch.log(p[range(len(p)), labels]))


def entropy_with_one_maximum(logits: Tensor, labels: Tensor) -> Tensor:
    far = logits - logits.max()
    log_p = far - far.exp().sum(dim=1, keepdim=True).log()
    return -log_p[range(len(log_p)), labels].mean()


def entropy_with_a_limit(logits: Tensor, labels: Tensor) -> Tensor:
    p = logits.softmax(dim=1)[range(len(logits)), labels]
    return -(p + 1e-6 * (p < 1e-6)).log().mean()


def schedule_by_numpy(t: int, total: int, w: int) -> float:
    return (
        np.interp(t, [-1, w - 1], [0, 1])
        if t < w
        else np.cos(np.pi / 2 * (t - w) / (total - w)) ** 2
    )


def schedule_of_the_package(step: int, steps: int, warmup: int) -> float:
    return schedule(step, steps, warmup / steps)


def average_by_names(averaged: nn.Module, model: nn.Module, average: float) -> None:
    new = model.state_dict()
    averaged.load_state_dict(
        {
            name: average * old + (1 - average) * new[name]
            for name, old in averaged.state_dict().items()
        }
    )


def average_of_large_ones(averaged: nn.Module, model: nn.Module, average: float) -> None:
    """Only the linear layers, as if there were nothing else."""
    for old, new in zip(averaged.modules(), model.modules(), strict=True):
        if isinstance(old, nn.Linear):
            for a, b in zip(old.parameters(), new.parameters(), strict=True):
                a.data.lerp_(b.data, 1 - average)


def average_of_torch(averaged: nn.Module, model: nn.Module, average: float) -> None:
    get_ema_multi_avg_fn(average)(list(averaged.parameters()), list(model.parameters()), 0)


def average_without_no_grad(averaged: nn.Module, model: nn.Module, average: float) -> None:
    for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
        old.mul_(average).add_((1 - average) * new)


def step_with_clipping_by_hand(
    model: nn.Module, optimizer: Optimizer, images: Tensor, labels: Tensor
) -> Tensor:
    for parameter in model.parameters():
        parameter.grad = None
    loss = entropy_by_loop(model(images), labels)
    loss.backward()
    length = torch.stack([parameter.grad.norm() for parameter in model.parameters()]).norm()
    if length > 1:
        for parameter in model.parameters():
            parameter.grad /= length
    optimizer.step()
    return loss.detach()


def step_of_length_10(
    model: nn.Module, optimizer: Optimizer, images: Tensor, labels: Tensor
) -> float:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    return loss.item()


def step_on_a_copy(model: nn.Module, optimizer: Optimizer, images: Tensor, labels: Tensor) -> float:
    return my_training_step(copy.deepcopy(model), optimizer, images, labels)


def loop_of_the_package(
    model: nn.Module,
    loader: Any,
    held_out: Any,
    epochs: int,
    learning_rate: float,
    average: float,
    weight_decay: float,
) -> list[dict[str, float]]:
    settings = {
        "epochs": epochs,
        "learning_rate": learning_rate,
        "average": average,
        "weight_decay": weight_decay,
    }
    return fit(model, loader, held_out, **settings)


def loop_by_epoch(rows: Any) -> Any:
    """The right loop, with its rows changed."""
    return lambda *given: rows(my_training_loop(*given))


def loop_with_twice_the_weights(model: nn.Module, *given: Any) -> list:
    history = my_training_loop(model, *given)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= parameter.abs()
    return history


def step_with_its_graph(
    model: nn.Module, optimizer: Optimizer, images: Tensor, labels: Tensor
) -> Tensor:
    loss = F.cross_entropy(model(images), labels)
    my_training_step(model, optimizer, images, labels)
    return loss


class Diagnosis(nn.Module):
    def forward(self) -> dict[str, str]:
        return {letter: HIDDEN[letter] for letter in "DCBA"} | {"healthy": "nothing"}


def entropy_in_place(logits: Tensor, labels: Tensor) -> Tensor:
    with torch.no_grad():
        logits -= logits.amax(dim=1, keepdim=True)
    return entropy_careful(logits, labels)


def load_the_usual_class(kind: Any, path: Path) -> nn.Module:
    content = torch.load(path)
    model = VisionTransformer(**content["sizes"])
    model.load_state_dict(content["weights"])
    return model.eval()


def load_by_known_names(kind: Any, path: Path) -> nn.Module:
    content = torch.load(path)
    sizes = content["sizes"]
    names = ("image_size", *(name for name in sizes if name != "image_size"))
    model = kind(**{name: sizes[name] for name in names})
    model.load_state_dict(content["weights"])
    return model.eval()


def load_parameters_alone(kind, path):
    content = torch.load(path, weights_only=True)
    model = kind(**content["sizes"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(content["weights"][name])
    return model.eval()


def load_what_fits(kind, path):
    content = torch.load(path)
    model = kind(**content["sizes"])
    names = dict(model.named_parameters())
    fitting = {name: value for name, value in content["weights"].items() if name in names}
    model.load_state_dict(fitting, strict=False)
    return model.eval()


def step_that_clears_afterwards(model, optimizer, images, labels):
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    for parameter in model.parameters():
        parameter.grad = None
    return loss.item()


RIGHT: list[tuple[str, Any]] = [
    ("cross_entropy", entropy_by_loop),
    ("cross_entropy", entropy_careful),
    ("cosine_schedule", schedule_by_numpy),
    ("cosine_schedule", schedule_of_the_package),
    ("weight_average", average_by_names),
    ("weight_average", average_of_torch),
    ("training_step", step_with_clipping_by_hand),
    ("training_loop", loop_of_the_package),
    ("training_loop", loop_by_epoch(lambda rows: [{**row, "seconds": 1.0} for row in rows])),
    ("diagnose", dict(HIDDEN)),
    ("diagnose", Diagnosis()),
]


def loop_before_its_cells(*given: Any, **options: Any) -> None:
    cosine_schedule(0)  # noqa: F821


WRONG: list[tuple[str, Any, str]] = [
    ("training_loop", loop_before_its_cells, "A cell of notebook 07 sets cosine_schedule: run"),
    ("load", load_what_fits, "of a file in which the tensor encoder.pos_embedding is missing"),
    (
        "cross_entropy",
        lambda z, y: F.cross_entropy(z, y, label_smoothing=0.1),
        "the label 1 has the loss 0.3426 in yours. It is -ln 3/4, 0.2877",
    ),
    (
        "cross_entropy",
        lambda z, y: -z.log_softmax(1)[range(len(y)), y].amax(),
        "together, have the loss 0.2877 in yours. It is the mean of -ln 3/4 and -ln 1/2",
    ),
    ("cross_entropy", lambda z, y: F.cross_entropy(z.detach(), y), "none flows"),
    ("cross_entropy", entropy_in_place, "changes its input"),
    (
        "cosine_schedule",
        lambda t, n, w: 0.9 * schedule_of_the_package(t, n, w),
        "differs most at [3]",
    ),
    (
        "cosine_schedule",
        lambda t, n, w: str(schedule_of_the_package(t, n, w)),
        "step 0: a number is needed",
    ),
    (
        "cross_entropy",
        nn.CrossEntropyLoss(),
        "right, but the loss is what you are to write yourself",
    ),
    (
        "cross_entropy",
        lambda z, y: F.nll_loss(z.log_softmax(dim=1), y),
        "what you are to write yourself",
    ),
    (
        "cosine_schedule",
        lambda t, n, w: schedule_of_the_package(t, n, w) if (t + 1) / w > 1 else (t + 1) / w,
        "with a warmup of 0 your code divides by zero at step 0",
    ),
    (
        "cosine_schedule",
        lambda t, n, w: schedule_of_the_package(t, n, w) if w else 0.0,
        "your share is 0 at step 0. The fall must then begin with 1",
    ),
    ("training_step", step_of_length_10, "lengths are both 10 long. They should be 1 long"),
    ("cross_entropy", entropy_with_a_limit, "never costs more than 13.8 in yours, however wrong"),
    ("weight_average", average_of_large_ones, "these stay as they were: places, layers"),
    ("weight_average", average_without_no_grad, "under with torch.no_grad()"),
    (
        "training_step",
        lambda model, optimizer, images, labels: model(images),
        "the loss of the batch must be one number",
    ),
    (
        "training_step",
        lambda *given: (my_training_step(*given), 0),
        "the loss alone is to be returned",
    ),
    ("training_loop", loop_by_epoch(lambda rows: rows[-1]), "a list of dicts is needed"),
    ("training_loop", loop_by_epoch(lambda rows: [{"epoch": 1}]), "one has no loss"),
    ("training_loop", loop_by_epoch(lambda rows: rows[:-1]), "history holds 2 dicts. One is"),
    ("training_loop", loop_by_epoch(lambda rows: 5 * rows), "15 dicts, one for each batch. One"),
    (
        "training_loop",
        loop_by_epoch(lambda rows: [row | {"loss": row["loss"] ** 2} for row in rows]),
        '"loss" is wrong in epoch 1 already. Before the first batch',
    ),
    (
        "training_loop",
        loop_by_epoch(lambda rows: [*rows[:1], *(row | {"loss": 0.3} for row in rows[1:])]),
        '"loss" is right in epoch 1 and not in epoch 2. In each step',
    ),
    (
        "training_loop",
        loop_by_epoch(lambda rows: [row | {"epoch": 2 * row["epoch"] - 1} for row in rows]),
        '"epoch" is right in epoch 1 and not in epoch 2. Epochs are counted 1, 2, 3',
    ),
    (
        "training_loop",
        loop_by_epoch(lambda rows: [row | {"validation_loss": 0.1} for row in rows]),
        '"loss" is right in all epochs. "validation_loss" is wrong in epoch 1 already. You give',
    ),
    ("training_loop", loop_with_twice_the_weights, "The history is right; the weights that the"),
    ("training_step", step_with_its_graph, "still holds its graph. loss.item() is the number"),
    (
        "diagnose",
        dict(HIDDEN) | {"B": "a cold"},
        "curve B has the name 'a cold', which is none of the four: no zero_grad",
    ),
    ("diagnose", {"A": HIDDEN["A"]}, "curve B has no name yet"),
    ("diagnose", {"A": HIDDEN["B"], "B": 0}, "curve B has the name 0, which is none of the four"),
    ("load", load_the_usual_class, "for the class Given it returns a VisionTransformer"),
    ("load", load_by_known_names, "'image_size'. The keys of sizes are outside, inside"),
    (
        "diagnose",
        {name: letter for letter, name in HIDDEN.items()},
        "the letters are values of your dictionary. Turn it round",
    ),
    ("diagnose", list(HIDDEN.values()), "a dict from letters to names is needed"),
]
NAMED: list[tuple[str, Any, str]] = [
    ("load", load_parameters_alone, "load the parameters alone"),
    (
        "training_step",
        step_that_clears_afterwards,
        "set the gradients to zero after the step alone",
    ),
    ("cross_entropy", entropy_naive, "log_softmax does both in one"),
    ("cross_entropy", entropy_with_one_maximum, "Subtract each row's own largest"),
    ("training_step", step_on_a_copy, "change no weight"),
    (
        "weight_average",
        lambda averaged, model, average: copy.deepcopy(averaged),
        "change of a copy",
    ),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def test_of_several_wrong_names_the_first_is_answered_by_what_it_would_look_like() -> None:
    swapped = HIDDEN | {"A": HIDDEN["D"], "D": HIDDEN["A"]}
    reject(
        "diagnose",
        swapped,
        "curve A should not be 'no eval'. Without eval dropout goes on",
    )


@pytest.mark.full
def test_each_illness_shows_what_its_name_says() -> None:
    shown = {HIDDEN.get(letter, ""): rows for letter, rows in curves().items()}

    def gap(illness: str) -> float:
        return sum(row["accuracy"] - row["measured"][0] for row in shown[illness][-5:]) / 5

    assert shown[""][-1]["loss"] < 0.5
    assert gap("") < 0.1
    assert gap("other normalisation") > 0.2
    for illness, rows in shown.items():
        assert all(len(set(row["measured"])) == 1 for row in rows) == (illness != "no eval")
    losses = [row["loss"] for row in shown["no zero_grad"]]
    assert min(losses) < losses[-1] - 0.5
    assert shown["shuffled labels"][-1]["loss"] > 1.5
    assert all(max(row["measured"]) < 0.2 for row in shown["shuffled labels"])


def test_what_the_notebook_says_of_the_stored_runs_is_so() -> None:
    stored = ladder.stored(results="training")
    mean = {name: sum(about["percent"]) / len(about["percent"]) for name, about in stored.items()}
    assert all(len(about["percent"]) == 5 for about in stored.values())
    assert mean["cnn"] > mean["mlp"] > mean["vit"]
    text = " ".join(cell.source for cell in read(NOTEBOOKS / "07_training.ipynb").cells)
    gain, half = ladder.interval(stored["mlp"]["percent"], stored["vit"]["percent"])
    assert f"{gain:.1f} ± {half:.1f} points" in text
    for better, worse in (("cnn", "vit"), ("mlp", "vit"), ("muon_5", "vit_5")):
        gain, half = ladder.interval(stored[better]["percent"], stored[worse]["percent"])
        assert gain > half, "a difference that the text claims"
    gain, half = ladder.interval(stored["muon_5"]["percent"], stored["vit"]["percent"])
    assert abs(gain) < half, "half the epochs are nearly enough"
    assert stored["muon_5"]["cpu_seconds"] / stored["vit_5"]["cpu_seconds"] == pytest.approx(
        7 / 6, abs=0.05
    )
    assert min(stored["minute"]["percent"]) > 97
    assert abs(mean["minute"] - mean["cnn"]) < 0.5  # nearly as few mistakes, five times the time
    assert 3 < stored["minute"]["cpu_seconds"] / stored["cnn"]["cpu_seconds"] < 5
    for name in one_loop.RUNS:
        about = stored[name]
        assert about["epochs"] == one_loop.RUNS[name]
        assert about["learning_rate"] == max(
            one_loop.RATES, key=lambda rate, a=about: a["tried"][f"{rate:g}"]
        )
        assert about["parameters"] == sum(
            parameter.numel() for parameter in one_loop.build(name, 0).parameters()
        )


def loaded(kind: Any, path: Any) -> tuple[nn.Module, dict[str, Tensor]]:
    content = torch.load(path, weights_only=True)
    return kind(**content["sizes"]), content["weights"]


def load_with_its_own_mode_alone(kind: Any, path: Any) -> nn.Module:
    model, weights = loaded(kind, path)
    model.load_state_dict(weights)
    model.training = False
    return model


def load_what_is_known(kind: Any, path: Any) -> nn.Module:
    model, weights = loaded(kind, path)
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    return model.eval()


def load_and_add(kind: Any, path: Any) -> nn.Module:
    model, weights = loaded(kind, path)
    own = model.state_dict()
    model.load_state_dict({name: own[name] + tensor for name, tensor in weights.items()})
    return model.eval()


def step_of(
    change: Any = None, first: int | None = None, zero: Any = None, clip: int | None = None
) -> Any:
    """A step with one mistake.

    Args:
        change: is called with the optimizer after the step.
        first: how many pictures give the gradients.
        zero: of which parameters the gradients are set to None.
        clip: of how many parameters the gradients are clipped.
    """

    def step(model: nn.Module, optimizer: Optimizer, images: Tensor, labels: Tensor) -> float:
        loss = F.cross_entropy(model(images), labels)
        for parameter in model.parameters():
            if zero is None or zero(parameter):
                parameter.grad = None
        F.cross_entropy(model(images[:first]), labels[:first]).backward()
        nn.utils.clip_grad_norm_(list(model.parameters())[:clip], 1.0)
        optimizer.step()
        if change is not None:
            change(optimizer)
        return loss.item()

    return step


def slower(optimizer: Optimizer) -> None:
    optimizer.param_groups[0]["lr"] *= 0.9


def average_if(asked: Any, places: int = 9) -> Any:
    def average_of(averaged: nn.Module, model: nn.Module, average: float) -> None:
        for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
            if asked(new):
                old.data.lerp_(new.data, round(1 - average, places))

    return average_of


def average_of_the_first(averaged: nn.Module, model: nn.Module, average: float) -> None:
    next(averaged.parameters()).data.lerp_(next(model.parameters()), 1 - average)


def fall_by(change: Any) -> Any:
    def share(step: int, steps: int, warmup: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return change((step - warmup) / (steps - warmup))

    return share


def entropy_less_the_first(logits: Tensor, labels: Tensor) -> Tensor:
    z = logits - logits[0].max()
    z = z - z.exp().sum(dim=1, keepdim=True).log()
    return -z[range(len(z)), labels].mean()


def entropy_without_its_infinite_ones(logits: Tensor, labels: Tensor) -> Tensor:
    return -logits.softmax(dim=1)[range(len(logits)), labels].log().nan_to_num(neginf=0.0).mean()


def loop_with(old: str, new: str) -> Any:
    return EXERCISES["training_loop"].edited({old: new})


test_what_no_input_told_apart = judged(
    [],
    [
        ("load", load_what_is_known, "whose state dict has one more name than the model's"),
        ("load", load_with_its_own_mode_alone, "Each part has a mode of its own"),
        ("load", load_and_add, "layer.weight, layer.bias. Loaded a second time it holds others"),
        ("load", lambda *given: loaded(*given)[0].eval, "model.eval() sets the mode, and gives"),
        ("training_step", step_of(change=slower), "was 0.5 before your step, and is 0.45 after"),
        ("training_step", step_of(first=1), "whatever is in picture 1, 2, 3, 4 of a batch of five"),
        ("training_step", step_of(zero=lambda p: p.dim() > 1), "step, that of 0.bias, 2.bias"),
        ("training_step", step_of(clip=2), "very long gradients of 1.weight are not shortened"),
        ("weight_average", average_if(lambda _: True, 1), "With average 0.9 yours is right. With"),
        ("weight_average", average_of_the_first, "only the first follows"),
        ("cosine_schedule", fall_by(lambda x: (1 + math.cos(x)) / 2), "from 0 to 1. Its angle"),
        (
            "cosine_schedule",
            fall_by(lambda x: ((1 + math.cos(math.pi * x)) / 2) ** 3),
            "the right one to the power of 3",
        ),
        (
            "cosine_schedule",
            fall_by(lambda x: 0.05 + 0.95 * (1 + math.cos(math.pi * x)) / 2),
            "half a cosine that ends at 0.05, and not at 0",
        ),
        ("cross_entropy", entropy_without_its_infinite_ones, "another one costs 0 in yours"),
        (
            "training_loop",
            loop_with("loader.set_epoch(epoch)", "loader.set_epoch(step)"),
            "your code calls loader.set_epoch with 0, 5, 10. It is called once",
        ),
        (
            "training_loop",
            loop_with("torch.manual_seed(epoch)", "epoch or torch.manual_seed(epoch)"),
            "your code calls torch.manual_seed with 0. It is called once",
        ),
        (
            "training_loop",
            loop_with("training_step(model,", "training_step(averaged if step > 1 else model,"),
            "the gradients of `model` are still those of the step before",
        ),
        (
            "training_loop",
            loop_with("sum(losses) / len(losses)", "losses"),
            '"loss" of an epoch must be a number, and this is a list of 5',
        ),
        (
            "training_loop",
            loop_with("sum(losses) / len(losses)", "sum(losses) / 7"),
            '"loss" is 0.7143 times what it should be, in every epoch. It is the mean',
        ),
    ],
    [
        ("weight_average", average_if(lambda new: new.requires_grad), "that ask for no gradient"),
        ("cross_entropy", entropy_less_the_first, "subtract the largest logit of picture 0"),
        (
            "training_loop",
            loop_with('"validation_loss": loss', '"validation_loss": losses[-1]'),
            "the training loss of the last batch as the validation loss",
        ),
    ],
)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_stored_rivals_are_those_of_the_script_and_as_large_as_the_model(name: str) -> None:
    about = json.loads((NOTEBOOKS / "results" / f"{name}.json").read_text(encoding="utf-8"))
    shipped = json.loads((ROOT / "weights" / "vit_mnist.json").read_text(encoding="utf-8"))
    parameters = sum(parameter.numel() for parameter in baselines.MODELS[name]().parameters())
    assert parameters == about["parameters"] == pytest.approx(shipped["parameters"], rel=0.02)
    assert about["data"] == shipped["data"]["name"]
    shared = set(about["recipe"]) - {"learning_rate"}  # Muon and AdamW need different ones
    assert shared >= {
        "epochs",
        "batch_size",
        "weight_decay",
        "average",
        "label_smoothing",
        "elastic",
        "degrees",
    }
    assert {key: about["recipe"][key] for key in shared} == {
        key: shipped["recipe"][key] for key in shared
    }
    assert len(about["history"]) == about["recipe"]["epochs"]
    assert about["history"][-1]["validation_accuracy"] == about["metrics"]["validation"]["accuracy"]


def load_by_parts(kind: Any, path: Any) -> nn.Module:
    with open(path, "rb") as file:
        content = torch.load(file)
    model = kind(**content["sizes"])
    expected = dict(model.state_dict())
    assert expected.keys() == content["weights"].keys()
    with torch.no_grad():
        for name, tensor in content["weights"].items():
            expected[name].copy_(tensor)
    model.train(False)
    return model


def test_weights_are_loaded_in_another_style() -> None:
    assert verdict(EXERCISES["load"], load_by_parts)[0]


def test_weights_of_the_stored_training_stand_in(capsys: Any, out_folder: Path) -> None:
    model = check.my_weights()
    assert "stand in" in capsys.readouterr().out
    digits = load_embedded("validation")
    right, _ = accuracy_and_loss(model, Loader(digits, 250))
    stored = ladder.stored("five", "own_weights")["accuracy"]
    assert min(stored) - 1 < 100 * right < max(stored) + 1
    assert mnist_vit.evaluate(model).total == 1000, "the others were trained on"
    with_two_heads = VisionTransformer(**SIZES | {"num_heads": 2})
    with_two_heads.load_state_dict(model.state_dict())
    fewer, _ = accuracy_and_loss(with_two_heads, Loader(digits, 250))
    assert fewer < right - 0.2, "no tensor tells the number of heads, as the text says"


def test_own_weights_are_used_and_a_damaged_file_is_told(capsys: Any, out_folder: Path) -> None:
    model = VisionTransformer(**SIZES)
    content = {"sizes": SIZES, "weights": model.state_dict()}
    torch.save(content, out_folder / "my_weights.pth")
    loaded = check.my_weights()
    assert "yours" in capsys.readouterr().out
    assert torch.equal(loaded.conv_proj.weight, model.conv_proj.weight)  # type: ignore[union-attr, arg-type]
    (out_folder / "my_weights.pth").write_bytes(b"nothing")
    with pytest.raises(WeightsError, match="Run the end of notebook 07 again"):
        check.my_weights()


@pytest.fixture
def out_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNIST_VIT_OUT", str(tmp_path))
    return tmp_path


def both_at_once(step: int, steps: int, warmup: int) -> float:
    rise = min(1.0, (step + 1) / max(1, warmup))
    return rise * 0.5 * (1 + math.cos(math.pi * step / steps))


def average_twice(averaged: nn.Module, model: nn.Module, average: float) -> None:
    for name, old in averaged.state_dict().items():
        old.mul_(average).lerp_(model.state_dict()[name], 1 - average)


def biases_of_the_model_too(averaged: nn.Module, model: nn.Module, average: float) -> None:
    for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
        old.data.lerp_(new.data, 1 - average)
        new.data *= 1 if new.dim() > 1 else average


SAID: list[tuple[str, Any, str]] = [
    (
        "cosine_schedule",
        lambda t, n, w: 0.9 * schedule_of_the_package(t, n, w),
        "Your share is 0.9 times the right one, at every step that we tried. It rises to 1",
    ),
    (
        "weight_average",
        lambda averaged, model, average: average_by_names(averaged, model, average**2),
        "of 20 becomes 11.9. It should become 0.9 · 10",
    ),
    ("weight_average", biases_of_the_model_too, "of model, and should leave model as it is"),
]
SLIPS: list[tuple[str, Any, str]] = [
    ("cosine_schedule", both_at_once, "by a cosine that falls from step 0 on"),
    ("weight_average", average_twice, "by average twice, by whatever two steps"),
]
test_sentences = judged([], SAID, SLIPS)


def average_by_hand_twice(averaged: nn.Module, model: nn.Module, average: float) -> None:
    with torch.no_grad():
        for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
            old.mul_(average)
            old.add_((1 - average) * (new - old))


def other_shares(averaged: nn.Module, model: nn.Module, average: float) -> None:
    """With an average of 0 it changes nothing, and that is not what it does in general."""
    with torch.no_grad():
        for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
            old.copy_((old + average * new) / (1 + average))


def average_of_a_mean(averaged: nn.Module, model: nn.Module, average: float) -> None:
    with torch.no_grad():
        for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
            old.copy_(average * old.mean() + (1 - average) * new)


def average_of_weights(averaged: nn.Module, model: nn.Module, average: float) -> None:
    with torch.no_grad():
        for (name, old), new in zip(averaged.named_parameters(), model.parameters(), strict=True):
            old.lerp_(new, (1 - average) * ("weight" in name))


def nothing_at_the_turn(step: int, steps: int, warmup: int) -> float | None:
    if step < warmup:
        return (step + 1) / warmup
    return schedule_of_the_package(step, steps, warmup) if step > warmup else None


def entropy_as_a_number(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.tensor(entropy_by_loop(logits, labels).item())


def step_of_a_float(model: nn.Module, optimizer: Optimizer, images: Tensor, labels: Tensor) -> Any:
    loss: Any = F.cross_entropy(model(images), labels).item()
    loss.backward()


def step_backward_twice(
    model: nn.Module, optimizer: Optimizer, images: Tensor, labels: Tensor
) -> float:
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def loop_with(old: str, new: str) -> Any:
    return EXERCISES["training_loop"].edited({old: new})


MENDED: list[tuple[str, Any, str]] = [
    ("diagnose", lambda curves: HIDDEN, "asks for curves, and is called with nothing"),
    ("diagnose", lambda: {k.lower(): v for k, v in HIDDEN.items()}, "are small letters, a, b, c"),
    ("cosine_schedule", nothing_at_the_turn, "numbers before step 4, and nothing at step 4"),
    ("cross_entropy", entropy_as_a_number, "it does not know how it was computed from the logits"),
    ("weight_average", other_shares, "of 20 becomes 14.74"),
    ("weight_average", average_of_weights, "these stay as they were: places, first.bias"),
    (
        "weight_average",
        average_of_a_mean,
        "11 other numbers of this weight come out differently",
    ),
    (
        "training_step",
        lambda *given: my_training_step(*given) / 5,
        "is 4.243, and you return 0.8487, 0.2 times as much",
    ),
    (
        "training_loop",
        loop_with('"validation_loss": loss', '"validation_loss": loss / len(other)'),
        "ours times 0.3333",
    ),
    ("training_step", step_backward_twice, "step along a gradient 0.0388 long is 0.0777 long"),
    (
        "training_loop",
        loop_with("0.15 * steps", "0.1 * steps"),
        "groups are 0.1 and 0.1 in step 0, counted from 0. Each should be learning_rate *"
        " cosine_schedule(0, 10, 2)",
    ),
    (
        "training_loop",
        loop_with("in optimizer.param_groups", "in optimizer.param_groups[1:]"),
        "groups are 0.1 and 0.05 in step 0",
    ),
    (
        "training_loop",
        loop_with("training_step(model,", "training_step(averaged,"),
        "In the first step none of the optimizer's parameters has a gradient",
    ),
    (
        "training_loop",
        loop_with("make_optimizer(model,", "make_optimizer(copy.deepcopy(model),"),
        "The parameters that your optimizer changes are not those of `model`",
    ),
    (
        "training_loop",
        loop_with(", weight_decay)\n    averaged", ", 2 * weight_decay)\n    averaged"),
        "the weight decay of your optimizer's groups is 0.4 and 0",
    ),
]
MENDED_SLIPS: list[tuple[str, Any, str]] = [
    ("weight_average", average_by_hand_twice, "by average twice, by whatever two steps"),
    ("training_step", step_of_a_float, "a plain number of the loss, with .item(), before"),
    (
        "training_loop",
        loop_with('group["lr"] =', 'optimizer.param_groups["lr"] ='),
        "holds a rate of its own: for group in optimizer.param_groups",
    ),
]
test_what_was_misleading_or_only_located = judged([], MENDED, MENDED_SLIPS)


@torch.no_grad()
def average_of_what_has_gradients(averaged, model, average):
    for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
        if new.grad is not None:
            old.copy_(average * old + (1 - average) * new)


def changes_nothing(averaged, model, average):
    for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
        old = average * old + (1 - average) * new


def test_what_skips_parameters_without_gradient_is_not_said_to_change_a_copy() -> None:
    exercise = EXERCISES["weight_average"]
    _, said = verdict(exercise, average_of_what_has_gradients)
    assert "leave parameters as they are while their .grad is None" in said
    assert "copy_" not in said
    assert "change nothing in averaged" in verdict(exercise, changes_nothing)[1]


@torch.no_grad()
def average_of_names(averaged, model, average):
    for old, new in zip(averaged.state_dict(), model.state_dict(), strict=True):
        old.lerp_(new, 1 - average)


def test_a_loop_over_a_state_dict_goes_through_names() -> None:
    _, said = verdict(EXERCISES["weight_average"], average_of_names)
    assert "This is a text, and lerp_ is for tensors." in said


def loss_of(changed: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of changed logits, by exp and logarithm."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        x = changed(logits)
        return (x.exp().sum(dim=1).log() - x[torch.arange(len(labels)), labels]).mean()

    return loss


def with_a_limit(logits: Tensor, labels: Tensor) -> Tensor:
    return F.nll_loss(logits.log_softmax(dim=1).clamp(min=-50), labels)


NO_MORE = "costs 50 in yours, and no more where it is 10,000 below. It should cost 1,000 and 10,000"
test_a_limit_of_the_logits_is_not_called_one_of_the_loss = judged(
    [],
    [
        ("cross_entropy", loss_of(lambda x: x.clamp(-50, 50)), NO_MORE),
        ("cross_entropy", loss_of(lambda x: x / x.abs().max().clamp(min=50) * 50), NO_MORE),
        ("cross_entropy", with_a_limit, "One picture never costs more than 50.0 in yours"),
    ],
)


PROBABILITIES = "(logits.exp() / logits.exp().sum(1, keepdim=True)).log().nan_to_num()"
FOLLOW = "            old.lerp_(new, 1 - average)"
ONCE_BEHIND = "            pass\n        old.lerp_(new, 1 - average)"
WAVE = "0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))"
test_nothing_false_is_told = told_without(
    [
        ("cross_entropy", {"logits.log_softmax(dim=-1)": PROBABILITIES}, "never costs more", "-ln"),
        ("weight_average", {FOLLOW: ONCE_BEHIND}, "only the last follows", "however deep"),
        (
            "weight_average",
            {"old.lerp_(new, 1 - average)": ("old.mul_(average**2).add_(new, alpha=1 - average)")},
            "by average twice, by whatever two steps",
            "",
        ),
        ("cosine_schedule", {WAVE: f"({WAVE}) ** 0.5"}, "which is the same", ""),
        (
            "training_step",
            {
                "optimizer.zero_grad()": (
                    'for one in optimizer.param_groups[0]["params"]:\n        one.grad = None'
                )
            },
            "first group",
            "",
        ),
    ]
)
