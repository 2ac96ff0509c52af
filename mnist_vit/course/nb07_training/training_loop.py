"""Exercise: the loop, in which everything of notebook 07 comes together."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from mnist_vit.course.nb07_training.cosine_schedule import my_cosine_schedule as cosine_schedule
from mnist_vit.course.nb07_training.training_step import my_training_step as training_step
from mnist_vit.course.nb07_training.weight_average import my_weight_average as weight_average
from mnist_vit.data import ImageData, Loader
from mnist_vit.training import accuracy_and_loss, make_optimizer

from ..checking import Evidence, Exercise, Mistake, Slip, describe, random, randomise


def my_training_loop(model, loader, other, epochs, learning_rate, average, weight_decay):
    """Train in place; at the end the model holds the averaged weights. Returns one dict for each
    epoch."""
    steps = epochs * len(loader)
    warmup = round(0.15 * steps)
    optimizer = make_optimizer(model, learning_rate, weight_decay)
    averaged = copy.deepcopy(model)

    step, history = 0, []
    for epoch in range(epochs):
        torch.manual_seed(epoch)
        loader.set_epoch(epoch)
        model.train()
        losses = []
        for images, labels in loader:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * cosine_schedule(step, steps, warmup)
            losses.append(training_step(model, optimizer, images, labels))
            weight_average(averaged, model, average if step > 0 else 0.0)
            step += 1
        accuracy, loss = accuracy_and_loss(averaged, other)
        row = {"epoch": epoch + 1, "loss": sum(losses) / len(losses)}
        history.append(row | {"validation_loss": loss, "validation_accuracy": accuracy})
    model.load_state_dict(averaged.state_dict())
    return history


KEYS = ("epoch", "loss", "validation_loss", "validation_accuracy")


def _is_plain(value: Any) -> bool:
    """Whether it is a number, or a tensor of one number that has left its graph."""
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and not value.requires_grad
    return isinstance(value, Real | np.generic) and not isinstance(value, bool)


def _setting() -> tuple[nn.Module, Loader, Loader]:
    """A model with dropout, in eval mode as one that was used before; 43 pictures, and 57 others.

    The 43 are 5 batches of 8, with 3 left over; the others are 3 batches, the last one smaller.
    """
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(16, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 3)
    )
    randomise(model).double().eval()
    pixels = (40 * random(100, 1, 4, 4, seed=5) + 128).clamp(0, 255).to(torch.uint8)
    labels = pixels.flatten(1).float()[:, :3].argmax(dim=1)
    data = ImageData(pixels, labels, ("a", "b", "c"), "noise", (0.5,), (0.2,))
    learn = data.select(torch.arange(43), "43")
    unseen = data.select(torch.arange(43, 100), "57")
    loader = Loader(learn, 8, shuffle=True, dtype=torch.float64)
    return model, loader, Loader(unseen, 20, dtype=torch.float64)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for epochs, average in ((3, 0.7), (2, 0.9)):
        model, loader, other = _setting()
        history = answer(model, loader, other, epochs, 0.1, average, 0.1)
        if history is None or history is ...:
            yield "history", history
            return
        if not isinstance(history, list) or not all(isinstance(row, dict) for row in history):
            raise Mistake(
                f"a list of dicts is needed, one for each epoch, and this is {describe(history)}."
            )
        if missing := [key for key in KEYS if not all(key in row for row in history)]:
            raise Mistake(f"each epoch's dict needs {', '.join(KEYS)}; one has no {missing[0]}.")
        if len(history) != epochs:
            raise _other_rows(len(history), epochs, len(loader))
        if len(set(map(id, history))) < epochs:
            raise Mistake(
                "entries of the history are one and the same dict, so each shows what was written"
                " last.",
                "Make a new dict in every epoch, where you append it.",
            )
        for key in KEYS:
            if odd := [row[key] for row in history if not _is_plain(row[key])]:
                raise Mistake(
                    f'"{key}" of an epoch must be a number, and this is {describe(odd[0])}.'
                )
            yield (
                f"{key} of each of {epochs} epochs",
                torch.tensor([float(row[key]) for row in history]),
            )
        yield (
            f"weights at the end of {epochs} epochs",
            nn.utils.parameters_to_vector(model.parameters()),
        )


def _other_rows(rows: int, epochs: int, batches: int) -> Mistake:
    """What is said where the history does not have one dict for each epoch."""
    said = f"with epochs={epochs} the history holds {rows} dict{'s' if rows != 1 else ''}"
    if rows == epochs * batches:
        said += ", one for each batch"
    return Mistake(
        f"{said}.",
        "One is needed for each epoch: history.append stands in the loop over epochs, behind that"
        " over batches, and return behind both.",
    )


@dataclass
class _StepSeen:
    """What an optimizer holds right before a step.

    Attributes:
        parameters: the identities of its parameters.
        rates, decays: learning rate and weight decay of each group.
        has_gradients: whether any parameter has a gradient.
        trains: whether the model is in training mode.
        gradient: all gradients of the model, one after the other.
    """

    parameters: set[int]
    rates: list[float]
    decays: list[float]
    has_gradients: bool
    trains: bool
    gradient: torch.Tensor


def notice(answer: Any) -> Mistake | None:
    """What the optimizer holds right before each step, of 3 epochs and of 2."""
    return _noticed_steps(answer, 3) or _noticed_steps(answer, 2)


def _noticed_steps(answer: Any, epochs: int) -> Mistake | None:
    """The first thing that is not right in the steps of so many epochs of 5 batches."""
    model, loader, other = _setting()
    seen: list[_StepSeen] = []

    def keep(optimizer: Any, given: Any, named: Any) -> None:
        groups = optimizer.param_groups
        held = [parameter for group in groups for parameter in group["params"]]
        seen.append(
            _StepSeen(
                set(map(id, held)),
                [float(group["lr"]) for group in groups],
                [float(group["weight_decay"]) for group in groups],
                any(parameter.grad is not None for parameter in held),
                model.training,
                torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
                if any(p.grad is not None for p in model.parameters())
                else torch.empty(0),
            )
        )

    own = set(map(id, model.parameters()))
    hook = register_optimizer_step_pre_hook(keep)
    set_epoch, manual_seed = mock.Mock(wraps=loader.set_epoch), mock.Mock(wraps=torch.manual_seed)
    try:
        with (
            mock.patch.object(loader, "set_epoch", set_epoch),
            mock.patch.object(torch, "manual_seed", manual_seed),
        ):
            answer(model, loader, other, epochs, 0.1, 0.7, 0.2)
    finally:
        hook.remove()
    if not seen:
        return None
    called = {
        "torch.manual_seed": [call.args for call in manual_seed.call_args_list],
        "loader.set_epoch": [call.args for call in set_epoch.call_args_list],
    }
    return (
        _noticed_optimizer(seen, own)
        or _noticed_rates(seen, epochs)
        or _noticed_seeds(called, epochs)
    )


def _noticed_seeds(called: dict[str, list[tuple]], epochs: int) -> Mistake | None:
    """With what the two functions are called that fix what is random in an epoch."""
    for name, calls in called.items():
        given = [call[0] for call in calls if len(call) == 1]
        if given == list(range(epochs)) or len(given) < len(calls):
            continue
        told = ", ".join(f"{one}" for one in given[:8])
        said = f"with {told}{', …' if len(given) > 8 else ''}" if given else "never"
        return Mistake(
            f"In {epochs} epochs of 5 batches your code calls {name} {said}.",
            f"It is called once at the beginning of each epoch, with the number of the epoch,"
            f" counted from 0: {', '.join(map(str, range(epochs)))}.",
        )
    return None


def _noticed_optimizer(seen: list[_StepSeen], own: set[int]) -> Mistake | None:
    """Whose parameters the optimizer changes, and by which gradients and weight decay."""
    if not own & seen[0].parameters:
        return Mistake(
            "The parameters that your optimizer changes are not those of `model`.",
            "make_optimizer(model, …) takes the model that is trained, and training_step the same"
            " model; the average is the copy.",
        )
    if not seen[0].has_gradients:
        return Mistake(
            "In the first step none of the optimizer's parameters has a gradient, so that the step"
            " changes nothing.",
            "Does another model go into training_step than into make_optimizer? Both take `model`.",
        )
    if seen[0].decays != [0.2, 0.0]:
        told = " and ".join(f"{decay:g}" for decay in seen[0].decays)
        return Mistake(
            f"With weight_decay=0.2 the weight decay of your optimizer's groups is {told}.",
            "make_optimizer(model, learning_rate, weight_decay) gives 0.2 to the matrices, and 0 to"
            " the rest.",
        )
    return None


def _noticed_rates(seen: list[_StepSeen], epochs: int) -> Mistake | None:
    """How many steps there are, and the first that is not done as it should be."""
    steps = epochs * 5
    if len(seen) != steps:
        return Mistake(
            f"With epochs={epochs} and 5 batches in an epoch you make {len(seen)} steps.",
            f"It should be {steps}, one for each batch of each epoch.",
        )
    warmup = round(0.15 * steps)
    for step, one in enumerate(seen):
        right = 0.1 * cosine_schedule(step, steps, warmup)
        if any(abs(rate - right) > 1e-9 for rate in one.rates):
            told = " and ".join(f"{rate:.4g}" for rate in one.rates)
            return Mistake(
                f"With learning_rate=0.1, epochs={epochs} and 5 batches in an epoch, the learning"
                f" rates of your optimizer's groups are {told} in step {step}, counted from 0.",
                f"Each should be learning_rate * cosine_schedule({step}, {steps}, {warmup}) there,"
                f" {right:.4g}: {steps} steps in all, round(0.15 * {steps}) = {warmup} of them"
                " warm-up, and the same rate in every group.",
            )
        if step and torch.equal(one.gradient, seen[step - 1].gradient):
            return Mistake(
                f"In step {step}, counted from 0, the gradients of `model` are still those of the"
                " step before.",
                "Does another model go into training_step? It takes `model`, whose parameters the"
                " optimizer has.",
            )
        if not one.trains:
            return Mistake(
                f"In step {step}, counted from 0, of {epochs} epochs of 5 batches your model is in"
                " eval mode.",
                "Dropout is then off: model.train() at the beginning of each epoch.",
            )
    return None


def tell(evidence: Evidence) -> tuple[str, str]:
    """From which epoch on a column is wrong, and what is right before it."""
    what, value, right = evidence.what, evidence.value, evidence.expected
    if what.startswith("weights"):
        return (
            "The history is right; the weights that the model has at the end are not.",
            "There it holds the averaged ones that were measured last:"
            " model.load_state_dict(averaged.state_dict()).",
        )
    key = what.partition(" ")[0]
    wrong = ((value - right).abs() > 1e-6).nonzero().flatten().tolist()
    before = "epoch 1" if wrong[0] == 1 else f"epochs 1 to {wrong[0]}"
    said = f'"{key}" is right in {before} and not in epoch {wrong[0] + 1}.'
    if not wrong[0]:
        said = f'"{key}" is wrong in epoch 1 already.'
    if len(set(value.tolist())) == 1:
        said += f" You give {float(value[0]):.4g} for each."
    factor = float(value[0] / right[0]) if right[0] else 1.0
    if abs(factor - 1) > 1e-6 and torch.allclose(value, factor * right, rtol=1e-5):
        said = f'"{key}" is {factor:.4g} times what it should be, in every epoch.'
        return said, TIMES.get(key, "")
    if key == "loss":
        return said, _about_loss(wrong[0])
    if key == "epoch":
        return said, "Epochs are counted 1, 2, 3 in the history."
    return (
        f'"loss" is right in all epochs. {said}',
        "After each epoch's steps: accuracy, loss = accuracy_and_loss(averaged, other), where the"
        " average follows after each step, and begins as the weights after step 0.",
    )


TIMES = {  # of a column that is the right one times a number
    "loss": "It is the mean over the epoch's batches, sum(losses) / len(losses).",
    "validation_loss": "accuracy_and_loss(averaged, other) returns it: it goes in as it is.",
    "validation_accuracy": (
        "accuracy_and_loss(averaged, other) returns it, as a share from 0 to 1: it goes in as it"
        " is."
    ),
}


def _about_loss(epoch: int) -> str:
    """What to look at where the training is another one from an epoch on."""
    step = (
        "In each step: the learning rate, set before it; training_step, which clips the gradients;"
        " the number of the step, plus 1."
    )
    if epoch:
        return (
            f"{step} At the beginning of each epoch: torch.manual_seed(epoch),"
            " loader.set_epoch(epoch), model.train(), and no losses from before."
        )
    return (
        f"Before the first batch: torch.manual_seed(epoch), loader.set_epoch(epoch), model.train()."
        f" {step} Behind the batches: the mean of all their losses."
    )


RATE = 'group["lr"] = learning_rate * cosine_schedule(step, steps, warmup)'
AVERAGE, COUNT = (
    "weight_average(averaged, model, average if step > 0 else 0.0)",
    "            step += 1\n",
)
STEP = "losses.append(training_step(model, optimizer, images, labels))"
SEED, ORDER, TRAIN = "torch.manual_seed(epoch)", "loader.set_epoch(epoch)", "model.train()"
MEASURE, END = (
    "accuracy, loss = accuracy_and_loss(averaged, other)",
    "model.load_state_dict(averaged.state_dict())",
)
LOSS, KEEP, EPOCH = '"loss": sum(losses) / len(losses)', "losses = []", '"epoch": epoch + 1'

SLIPS = (
    Slip(
        {
            'history.append(row | {"validation_loss": loss, "validation_accuracy": accuracy})': (
                'history.append(row | {"validation_loss": loss, "validation_accuracy": accuracy})\n'
                "        model.load_state_dict(averaged.state_dict())"
            )
        },
        "let the model take over the average after each epoch",
        "It does so once, after the last one: until then it goes on from its own weights",
    ),
    Slip(
        {RATE: "pass"},
        "leave the learning rate as it is",
        "Before each step it is set to learning_rate times its share",
    ),
    Slip(
        {RATE: RATE.replace("group", "optimizer.param_groups")},
        "write into the list of groups in the place of each group",
        'Each dict in it holds a rate of its own: for group in optimizer.param_groups, group["lr"]',
    ),
    Slip(
        {RATE: 'group["lr"] = cosine_schedule(step, steps, warmup)'},
        "use the share as the learning rate itself",
        "It is a share of learning_rate",
    ),
    Slip(
        {RATE: 'group["lr"] *= cosine_schedule(step, steps, warmup)'},
        "multiply the learning rate of the step before by the share",
        "It is learning_rate, the largest one, times the share",
    ),
    Slip(
        {RATE: 'group["lr"] = learning_rate * cosine_schedule(step + 1, steps, warmup)'},
        "count steps from 1 in the schedule",
        "The first one is step 0",
    ),
    Slip(
        {
            RATE: (
                'group["lr"] = learning_rate * cosine_schedule(epoch, epochs, max(1, warmup //'
                " len(loader)))"
            )
        },
        "change the learning rate from epoch to epoch only",
        "The schedule counts steps, one for each batch",
    ),
    *(
        Slip(
            {RATE: RATE.replace("step, steps, warmup", given)},
            "change the learning rate from epoch to epoch only",
            "The schedule counts steps, one for each batch, in all epochs together",
        )
        for given in (
            "epoch, epochs, round(0.15 * epochs)",
            "epoch + 1, epochs, round(0.15 * epochs)",
            "epoch, steps, warmup",
            "epoch + 1, steps, warmup",
            "epoch * len(loader), steps, warmup",
        )
    ),
    Slip(
        {
            KEEP: "losses = []\n        step = 0",
            AVERAGE: ("weight_average(averaged, model, average if epoch + step > 0 else 0.0)"),
        },
        "begin to count anew in each epoch, so that each has its own warm-up",
        "Count on over all epochs, from 0 to epochs * len(loader) - 1",
    ),
    Slip(
        {AVERAGE: "weight_average(averaged, model, average)"},
        "let the average begin with the start values",
        "It begins as the weights after step 0: copy them there, or call weight_average with 0.0",
    ),
    Slip(
        {
            AVERAGE: "pass",
            MEASURE: (
                "weight_average(averaged, model, average if epoch else 0.0)\n"
                "        accuracy, loss = accuracy_and_loss(averaged, other)"
            ),
        },
        "update the average once in an epoch",
        "It follows after each step",
    ),
    Slip(
        {AVERAGE: "pass"},
        "never change the averaged model that is measured",
        (
            "Call weight_average(averaged, model, average) after each step, with 0.0 at step 0:"
            " else the start values are measured and kept"
        ),
    ),
    Slip(
        {MEASURE: "accuracy, loss = accuracy_and_loss(model, other)"},
        "measure the model that is trained",
        "The averaged one is measured, and kept at the end",
    ),
    Slip(
        {END: ""},
        "leave the trained weights in the model at the end",
        "There it takes over the averaged ones, with load_state_dict or copy_. A line model ="
        " averaged only gives the name model to another object",
    ),
    Slip(
        {MEASURE: "accuracy, loss = accuracy_and_loss(averaged, loader)"},
        "measure on the pictures that were trained on",
        "`other` holds others",
    ),
    Slip(
        {TRAIN: "pass"},
        "leave out model.train()",
        "A model that comes in eval mode is then trained without its dropout",
    ),
    Slip(
        {SEED: "pass"},
        "leave out torch.manual_seed(epoch)",
        (
            "Call it at the beginning of each epoch: else what dropout draws depends on what was"
            " drawn before"
        ),
    ),
    Slip(
        {ORDER: "pass"},
        (
            "give every epoch the pictures in the same order, as happens without"
            " loader.set_epoch(epoch)"
        ),
        "Call loader.set_epoch(epoch) at the beginning of each epoch",
    ),
    Slip(
        {SEED: "pass", ORDER: "pass"},
        "leave out both torch.manual_seed(epoch) and loader.set_epoch(epoch)",
        (
            "Both belong at the beginning of each epoch: the one fixes what dropout draws, the"
            " other gives the epoch an order of its own"
        ),
    ),
    *(
        Slip(
            {
                STEP: (
                    "loss = nn.functional.cross_entropy(model(images), labels)\n"
                    f"            {zero}\n"
                    "            loss.backward()\n"
                    f"            {clip}\n"
                    "            optimizer.step()\n"
                    "            losses.append(loss.item())"
                )
            },
            did,
            instead,
        )
        for zero, clip, did, instead in (
            (
                "optimizer.zero_grad()",
                "pass",
                "leave out the clipping of the gradients",
                "training_step clips them: all of them together have at most the length 1",
            ),
            (
                "pass",
                "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
                "leave out zero_grad()",
                "Each step then adds to the gradients of all steps before it. training_step sets"
                " them to zero",
            ),
        )
    ),
    Slip(
        {SEED: "torch.manual_seed(0)"},
        "give every epoch the same seed",
        "torch.manual_seed(epoch): with one seed dropout draws the same in each epoch",
    ),
    Slip(
        {SEED: "torch.manual_seed(epoch + 1)"},
        "give torch.manual_seed epoch + 1",
        "Epochs count from 0 there: torch.manual_seed(epoch)",
    ),
    Slip(
        {ORDER: "loader.set_epoch(epoch + 1)"},
        "give loader.set_epoch epoch + 1",
        "Epochs count from 0 there: loader.set_epoch(epoch)",
    ),
    Slip(
        {SEED: "torch.manual_seed(epoch + 1)", ORDER: "loader.set_epoch(epoch + 1)"},
        "give torch.manual_seed and loader.set_epoch epoch + 1",
        "Epochs count from 0 there, and from 1 in the history only",
    ),
    Slip(
        {COUNT: "        step += 1\n"},
        "count the steps up once in an epoch",
        "Each batch is a step: step += 1 stands in the inner loop",
    ),
    Slip(
        {"averaged = copy.deepcopy(model)": "averaged = model"},
        "take the model itself for its average",
        "averaged = model gives it a second name, and copy.copy(model) shares its parameters. Make"
        " a copy with parameters of its own: copy.deepcopy(model)",
    ),
    Slip(
        {AVERAGE: "weight_average(averaged, model, average if epoch > 0 else 0.0)"},
        "let the average be the weights themselves in the whole first epoch",
        "It begins as the weights after step 0, and from step 1 on it is an average",
    ),
    Slip(
        {"learning_rate, weight_decay)": "learning_rate, 0.0)"},
        "train without weight decay",
        "Hand it on: make_optimizer(model, learning_rate, weight_decay)",
    ),
    Slip(
        {RATE: RATE.replace("steps,", "epochs,")},
        "give the schedule the number of epochs in the place of the number of steps",
        "It counts steps: epochs * len(loader) in all",
    ),
    Slip(
        {AVERAGE: AVERAGE.replace("average if", "1 - average if")},
        "exchange average and 1 - average",
        "`average` is the share of the old average that is kept",
    ),
    Slip(
        {AVERAGE: "weight_average(model, averaged, average if step > 0 else 0.0)"},
        "exchange the model and its average in weight_average",
        "The first one is changed: weight_average(averaged, model, …)",
    ),
    Slip(
        {AVERAGE: f"averaged = {AVERAGE}"},
        "put what weight_average returns in the place of the average",
        "It changes averaged in place, and returns nothing: call it on a line of its own",
    ),
    Slip(
        {TRAIN: "model.train()\n        averaged.load_state_dict(model.state_dict())"},
        "begin the average anew in each epoch, with the weights that the model has then",
        "It begins once, as the weights after the very first step, and follows through all epochs",
    ),
    Slip(
        {
            KEEP: "losses = []\n        is_first = True",
            AVERAGE: (
                "weight_average(averaged, model, 0.0 if is_first else average)\n"
                "            is_first = False"
            ),
        },
        "begin the average anew in each epoch, with the weights after the epoch's first step",
        "It begins once, as the weights after the very first step, and follows through all epochs",
    ),
    *(
        Slip(
            {AVERAGE: "pass", STEP: f"{before}\n            {STEP}"},
            "call weight_average before each step, so that it takes over the weights one step late",
            "It follows after each step: training_step first, then weight_average",
        )
        for before in (AVERAGE, "weight_average(averaged, model, average)")
    ),
    Slip(
        {MEASURE: "accuracy, loss = accuracy_and_loss(other, averaged)"},
        "give accuracy_and_loss the pictures first",
        "The model comes first: accuracy_and_loss(averaged, other)",
    ),
    Slip(
        {END: "model.load_state_dict(averaged)"},
        "give load_state_dict the model itself",
        "It takes the dict of its tensors: averaged.state_dict()",
    ),
    *(
        Slip(
            {'"validation_loss": loss': f'"validation_loss": {text}'},
            f"give {told} as the validation loss",
            "It is the loss of the averaged model on `other`: accuracy, loss ="
            " accuracy_and_loss(averaged, other)",
        )
        for text, told in (
            ("losses[-1]", "the training loss of the last batch"),
            ("sum(losses) / len(losses)", "the training loss of the epoch"),
        )
    ),
    Slip({LOSS: '"loss": sum(losses)'}, "add up the losses of the batches", "Their mean is wanted"),
    Slip(
        {LOSS: '"loss": losses[-1]'},
        "give the loss of the last batch",
        "The mean of all batches is wanted",
    ),
    Slip(
        {KEEP: "losses = [] if epoch == 0 else losses"},
        "go on collecting losses",
        "Each epoch has a mean of its own: begin anew in each",
    ),
    Slip({EPOCH: '"epoch": epoch'}, "count epochs from 0", "In the history the first one is 1"),
    Slip(
        {MEASURE: "loss, accuracy = accuracy_and_loss(averaged, other)"},
        "take accuracy and loss for each other",
        "accuracy_and_loss returns the accuracy first",
    ),
    Slip(
        {
            TRAIN: (
                "model.train()\n        optimizer = make_optimizer(model, learning_rate,"
                " weight_decay)"
            )
        },
        "make a new optimizer in each epoch",
        "A new one knows nothing of earlier gradients: make one, before the first epoch",
    ),
    Slip(
        {"warmup = round(0.15 * steps)": "warmup = round(0.15 * epochs)"},
        "train with a warm-up of 0 steps, as round(0.15 * epochs) gives with few epochs",
        "It takes round(0.15 * steps) of all steps",
    ),
    Slip(
        {
            RATE: "pass",
            AVERAGE: (
                "for group in optimizer.param_groups:\n"
                f"                {RATE}\n"
                "            weight_average(averaged, model, average if step > 0 else 0.0)"
            ),
        },
        "set the learning rate after the step",
        (
            "Each later step then has the rate of the one before, and the first has learning_rate"
            " itself: set it before the step"
        ),
    ),
    *(
        Slip(
            {RATE: RATE.replace("cosine_schedule(step, steps, warmup)", late)},
            "give each step but the first the share of the step before",
            "Step k has the share cosine_schedule(k, steps, warmup), and the first one is step 0",
        )
        for late in (
            "cosine_schedule(max(step - 1, 0), steps, warmup)",
            "cosine_schedule(step - 1, steps, warmup)",
        )
    ),
    Slip(
        {RATE: f"if step > 0:\n                    {RATE}"},
        "take learning_rate itself for the first step",
        "Its share is cosine_schedule(0, steps, warmup): set the rate before the step",
    ),
    Slip(
        {
            AVERAGE: "if step == 0:\n                weight_average(averaged, model, 0.0)",
            MEASURE: (
                "weight_average(averaged, model, average)\n"
                "        accuracy, loss = accuracy_and_loss(averaged, other)"
            ),
        },
        "begin the average after step 0 and then update it once in an epoch",
        "It follows after each step",
    ),
)

EXERCISE = Exercise(
    answer=my_training_loop,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    hints=(
        (
            "Two loops, one in the other: epochs, and the batches of each. Which lines belong to a"
            " step, which to an epoch, which to neither? Count the steps through all epochs."
        ),
        (
            'A step: set group["lr"] in optimizer.param_groups to learning_rate *'
            " cosine_schedule(step, steps, warmup), training_step, weight_average (with the share 0"
            " at step 0), step += 1. An epoch: before its batches the two seeds and model.train();"
            " behind them accuracy_and_loss(averaged, other) and a row for the history. At the very"
            " end: model.load_state_dict(averaged.state_dict())."
        ),
    ),
    same=(
        {
            RATE: "pass",
            "step, history = 0, []": (
                "step, history = 0, []\n    follow = torch.optim.lr_scheduler.LambdaLR(optimizer,"
                " lambda i: cosine_schedule(i, steps, warmup))"
            ),
            COUNT: "            step += 1\n            follow.step()\n",
        },
        {TRAIN: "model.train()\n        averaged.train()"},
    ),
)
