"""Exercise: a trained model and a few labelled images of another kind: a linear probe, or
fine-tuning."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ...model import VisionTransformer
from ..checking import Evidence, Exercise, Mistake, Slip, changed_in, random, state_of


def my_transfer(model, images, labels, freeze, steps, learning_rate):
    # a trained model, (n, c, h, w), (n,) -> another model, trained on these images
    model = copy.deepcopy(model)
    model.requires_grad_(not freeze)
    head = nn.Linear(model.class_token.shape[-1], 10)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    model.heads = head

    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=learning_rate)
    for _ in range(steps):
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    images, labels, others = random(20, 1, 8, 8), torch.arange(20) % 10, random(6, 1, 8, 8, seed=1)
    no_nines = labels % 9  # there are ten classes, whatever the labels are
    all_alike = labels * 0  # this loss falls far: an answer must not stop for that
    cases = (
        (True, 0, 7, labels),
        (True, 6, 7, labels),
        (False, 6, 7, no_nines),
        (False, 12, None, all_alike),
    )
    for freeze, steps, hidden, shown in cases:
        given = _given(hidden)
        before = copy.deepcopy(given.state_dict())
        borrowed = state_of(given)
        made = answer(given, images.clone(), shown.clone(), freeze, steps, 0.02)
        if made is None:
            yield "the new model", None
            return
        if not isinstance(made, nn.Module):
            raise Mistake(
                f"the answer must return the new model, but it returned {type(made).__name__}."
            )
        case = f"freeze={freeze}, {steps} steps"
        if hidden is None:
            case += ", a given model without pre_logits"
        with torch.no_grad():
            yield f"logits of the new model, {case}", made.eval()(others)
        what = f"tensors of the given model that changed or are gone, {case}"
        yield what, changed_or_gone(before, given)
        yield f"what has changed in the given model, {case}", changed_in(given, borrowed)
    refuse_unseen(two_steps, answer, my_transfer, _given)


def two_steps(answer: Any, model: nn.Module) -> nn.Module:
    """What an answer makes of a model in two steps, in which all of it learns."""
    images, labels = random(20, 1, 8, 8), torch.arange(20) % 10
    return answer(model, images, labels, False, 2, 0.02)


def changed_or_gone(before: dict[str, Tensor], model: nn.Module) -> str:
    """The names of the tensors that a model had before and has not now, or "none"."""
    after = model.state_dict()
    names = []
    for name, tensor in before.items():
        if name not in after or not torch.equal(tensor, after[name]):
            names.append(name)
    return ", ".join(names) or "none"


def notice(answer: Any) -> Mistake | None:
    """What has changed before any step, after one and after three."""
    images, labels = random(20, 1, 8, 8), torch.arange(20) % 10
    before = copy.deepcopy(_given().state_dict())

    def trained(freeze: bool, steps: int) -> tuple[Any, dict]:
        made = answer(_given(), images.clone(), labels.clone(), freeze, steps, 0.02)
        state = {name: tensor.clone() for name, tensor in made.state_dict().items()}
        return made, {name: t for name, t in state.items() if name.startswith("heads")}

    if too_many := noticed_number(
        lambda model: answer(model, images.clone(), labels.clone(), True, 0, 0.02), _given, 0
    ):
        return too_many
    made, heads = trained(True, 0)
    with torch.no_grad():
        logits = made.eval()(images)
    if other_head := _noticed_head(heads, logits):
        return other_head
    start = {name: tensor for name, tensor in before.items() if not name.startswith("heads")}
    for freeze in (True, False):
        made, now = trained(freeze, 3)
        still = [name for name in heads if torch.equal(now[name], heads[name])]
        if still:
            return Mistake(
                f"With freeze={freeze}, after 3 steps {' and '.join(still)} of the new head"
                f" {'are' if len(still) > 1 else 'is'} as after 0, and so not learned.",
                f"{LEARNS}.",
            )
        first = trained(freeze, 1)[1]
        if all(torch.equal(now[name], first[name]) for name in heads):
            return Mistake(
                f"With freeze={freeze}, the new head is the same after 1 step and after 3.",
                "All that belongs to a step must be inside of the loop, and the return behind it.",
            )
        if freeze and (wrong_rate := _noticed_rate(heads, first)):
            return wrong_rate
        body = {name: made.state_dict()[name] for name in start}
        moved = [name for name in body if not torch.equal(body[name], start[name])]
        if freeze and moved:
            more = f" and {len(moved) - 3} more" if len(moved) > 3 else ""
            return Mistake(
                f"With freeze=True not only the head has changed, but {', '.join(moved[:3])}{more},"
                " too.",
                "All but the new head must be frozen.",
            )
        still = [name for name in body if name not in moved]
        if not freeze and still:
            return Mistake(
                f"With freeze=False, after 3 steps {len(still)} of {len(body)} tensors outside the"
                f" head are what they were, such as {still[0]}.",
                "With freeze=False all parameters must learn.",
            )
    return (
        _noticed_images(answer, images, labels)
        or _noticed_given(answer, images, labels)
        or noticed_training(two_steps, answer, my_transfer, _given)
        or noticed_number(
            lambda model: answer(model, images.clone(), 0 * labels, False, 12, 0.02), _given, 12
        )
        or _noticed_second_step(answer, images, labels)
    )


def _noticed_head(heads: dict[str, Tensor], logits: Tensor) -> Mistake | None:
    """How the new head is no linear layer of zeros, before any step."""
    if list(logits.shape) != [20, 10]:
        return Mistake(
            f"For 20 images the new model's logits have the shape {tuple(logits.shape)}.",
            "The new head must give ten numbers for each image.",
        )
    layers = [name.removesuffix(".weight") for name, tensor in heads.items() if tensor.dim() == 2]
    if len(layers) > 1:
        return Mistake(
            f"The new model's head has {len(layers)} linear layers: {', '.join(layers)}.",
            "The new head is one linear layer, from hidden_dim numbers to ten classes, in the place"
            " of all of model.heads. pre_logits was made for the old task, too, and goes.",
        )
    besides = [name for name in heads if name.rpartition(".")[0] not in layers]
    if besides:
        return Mistake(
            f"The new model's head has other parameters besides a linear layer: {besides[0]}.",
            "The new head is one linear layer, from hidden_dim numbers to ten classes, and nothing"
            " else: encoder.ln is there already.",
        )
    if bool(logits.any()):
        return Mistake(
            "After 0 steps the new model's logits are not all 0.",
            "The new head must be one linear layer of zeros, weight and bias, in the place of all"
            " of model.heads, its hidden layer too.",
        )
    return None


@dataclass
class Step:
    """What an optimizer gets in a step.

    Attributes:
        optimizer: which one it is.
        settings: those of its groups.
        weights: those of the model at its last pass, by name.
        gradients: those that the optimizer gets, by name.
    """

    optimizer: torch.optim.Optimizer
    settings: list[dict[str, Any]]
    weights: dict[str, Tensor]
    gradients: dict[str, Tensor]


class Training:
    """What happens in the steps of a run.

    Attributes:
        images: the images of each pass.
        steps: each step of an optimizer.
    """

    def __init__(self, run: Callable[[nn.Module], nn.Module], model: nn.Module) -> None:
        self.images: list[Tensor] = []
        self.steps: list[Step] = []
        self._parameters: dict[str, nn.Parameter] = {}
        self._weights: dict[str, Tensor] = {}
        seen = self._sees

        def passes(module: nn.Module, args: tuple) -> None:  # a function: a copy's is the same one
            seen(module, args)

        model.register_forward_pre_hook(passes)
        handle = register_optimizer_step_pre_hook(self._steps)
        try:
            run(model)
        finally:
            handle.remove()

    def _sees(self, module: nn.Module, args: tuple) -> None:
        if args:
            self.images.append(args[0].detach().clone())
        self._parameters = dict(module.named_parameters())
        self._weights = {name: p.detach().clone() for name, p in self._parameters.items()}

    def _steps(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        settings = []
        held = set()
        for group in optimizer.param_groups:
            settings.append({key: value for key, value in group.items() if key != "params"})
            held |= {id(p) for p in group["params"]}
        gradients = {}
        for name, p in self._parameters.items():
            if id(p) in held and p.grad is not None:
                gradients[name] = p.grad.detach().clone()
        self.steps.append(Step(optimizer, settings, self._weights, gradients))

    def other_setting(self) -> Mistake | None:
        """Another optimizer than AdamW, a setting that is not AdamW's own, a rate that changes."""
        rates: dict[tuple[int, int], float] = {}
        for step in self.steps:
            kind = type(step.optimizer).__name__
            if not isinstance(step.optimizer, torch.optim.AdamW):
                return Mistake(f"Your optimizer is {kind}.", "torch.optim.AdamW is asked for.")
            for number, group in enumerate(step.settings):
                for name, usual in ADAMW.items():
                    if group.get(name, usual) != usual:
                        return Mistake(
                            f"Your {kind} has {name}={group[name]}.",
                            f"Leave it at what AdamW has by itself, {usual}: no setting is asked"
                            " for but the rate.",
                        )
                first = rates.setdefault((id(step.optimizer), number), group["lr"])
                if group["lr"] != first:
                    return Mistake(
                        f"The learning rate does not stay: {first:.4g} in a step, and"
                        f" {group['lr']:.4g} in a later one.",
                        "Every step is made at the rate that is given: no schedule.",
                    )
        return None

    def other_gradient(self, right: "Training") -> Mistake | None:
        """A gradient that is not that of the cross-entropy, in a step with the right weights."""
        for number, our in enumerate(right.steps, start=1):
            for step in self.steps:
                if not _are_near(step.weights, our.weights):
                    continue
                for name in sorted(our.gradients.keys() & step.gradients.keys()):
                    found, wanted = step.gradients[name], our.gradients[name]
                    if not _is_near(found, wanted):
                        return Mistake(
                            f"In step {number} the gradient of {name}{_times(found, wanted)}",
                            "In each step the optimizer should get the gradients of"
                            " F.cross_entropy(logits, labels) alone, as backward() leaves them: set"
                            " to zero before, with no option and no further term.",
                        )
        return None


def _is_near(found: Tensor, wanted: Tensor) -> bool:
    return torch.allclose(found, wanted, rtol=1e-3, atol=1e-6)


def _are_near(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> bool:
    if found.keys() != wanted.keys():
        return False
    return all(_is_near(found[name], wanted[name]) for name in wanted)


ADAMW = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "amsgrad": False}


def noticed_number(run: Callable[[nn.Module], Any], given: Callable, steps: int) -> Mistake | None:
    """Whether another number of steps is made than is asked for.

    Several optimizers may share a step, so of these only a step that is not asked for is told.
    """
    made = Training(run, given()).steps
    optimizers = {id(step.optimizer) for step in made}
    if len(made) == steps or (steps > 0 and len(optimizers) != 1):
        return None
    times = "once" if len(made) == 1 else f"{len(made)} times"
    return Mistake(
        f"With steps={steps} your code calls optimizer.step() {times}.",
        "for _ in range(steps) makes as many steps as are asked for, whatever the loss is.",
    )


def refuse_unseen(
    train: Callable[[Any, nn.Module], nn.Module], answer: Any, ours: Any, given: Callable
) -> None:
    """Raise Mistake for what hardly changes any number in a few steps.

    AdamW makes about the same steps with a gradient that is a multiple, and with amsgrad.
    """
    theirs = Training(lambda model: train(answer, model), given())
    right = Training(lambda model: train(ours, model), given())
    amsgrad = any(group.get("amsgrad") for step in theirs.steps for group in step.settings)
    seen = theirs.other_setting() if amsgrad else theirs.other_gradient(right)
    if seen is not None:
        raise seen


def noticed_training(
    train: Callable[[Any, nn.Module], nn.Module], answer: Any, ours: Any, given: Callable
) -> Mistake | None:
    """How the steps of an answer are not those of the solution.

    Args:
        train: makes two steps with an answer and a model.
        answer: the learner's.
        ours: the solution.
        given: makes the model.
    """
    theirs = Training(lambda model: train(answer, model), given())
    right = Training(lambda model: train(ours, model), given())
    images = right.images[0]
    counts = [len(some) for some in theirs.images]
    if any(count != len(images) for count in counts):
        return Mistake(
            f"In 2 steps on {len(images)} images the model gets {', '.join(map(str, counts))}"
            " images at once.",
            "Each step is made on all images at once: model(images).",
        )
    if any(not _hold_the_same(some, images) for some in theirs.images):
        return Mistake(
            "In a step the model gets other numbers than those of images.",
            "Give it the images as they are: model(images).",
        )
    return theirs.other_setting() or theirs.other_gradient(right)


def _hold_the_same(found: Tensor, images: Tensor) -> bool:
    """Whether these are the images' numbers, in whatever order."""
    if found.shape != images.shape:
        return False
    found, images = (some.double().flatten().sort().values for some in (found, images))
    return torch.allclose(found, images)


def _times(found: Tensor, wanted: Tensor) -> str:
    """How a gradient is another one: by a factor, or not."""
    factor = float((found * wanted).sum() / wanted.square().sum())
    if factor > 0 and torch.allclose(found, factor * wanted, rtol=1e-3, atol=1e-6):
        return f" that the optimizer gets is {factor:.3g} times that of the cross-entropy."
    return " that the optimizer gets is not that of the cross-entropy of logits and labels."


def _noticed_second_step(answer: Any, images: Tensor, labels: Tensor) -> Mistake | None:
    """Whether one step is right, and two are not."""
    is_right = []
    for steps in (1, 2):
        states = []
        for one in (answer, my_transfer):
            made = one(_given(), images.clone(), labels.clone(), False, steps, 0.02)
            states.append(made.eval()(images))
        is_right.append(torch.allclose(states[0], states[1], atol=1e-4))
    if is_right != [True, False]:
        return None
    return Mistake(f"With freeze=False: {ONE_STEP}", LATER_STEPS)


ONE_STEP = "the new model is right after 1 step, and not after 2."
LATER_STEPS = (
    "Every step should be made as the first one: the same optimizer at the same learning rate, new"
    " gradients, the same loss."
)


def _given(hidden: int | None = 7) -> VisionTransformer:
    """A model with a head of two layers, or of one; always the same, and a new one each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        given = VisionTransformer(
            8, 4, 1, 2, 12, 16, num_classes=10, representation_size=hidden, in_channels=1
        ).eval()
        nn.init.normal_(given.heads.head.weight)
    return given


def _noticed_images(answer: Any, images: Tensor, labels: Tensor) -> Mistake | None:
    """Whether the label of each image makes a difference."""
    usual = answer(_given(), images.clone(), labels.clone(), True, 2, 0.02).state_dict()
    unused = []
    for place in range(len(images)):
        others = labels.clone()
        others[place] = (labels[place] + 5) % 10
        made = answer(_given(), images.clone(), others, True, 2, 0.02).state_dict()
        if all(torch.equal(made[name], usual[name]) for name in usual):
            unused.append(str(place))
    if unused:
        return Mistake(
            f"Of {len(images)} images, the label makes no difference for number"
            f" {', '.join(unused)}.",
            "Each step must be made on all images at once, each with its own label.",
        )
    return None


def _noticed_given(answer: Any, images: Tensor, labels: Tensor) -> Mistake | None:
    """What has become of the given model."""
    for freeze, steps in ((True, 0), (True, 2), (False, 2)):
        given = _given()
        before = dict(given.named_parameters())
        start = {name: parameter.detach().clone() for name, parameter in before.items()}
        answer(given, images.clone(), labels.clone(), freeze, steps, 0.02).eval()
        after = dict(given.named_parameters())
        case = f"With freeze={freeze} and steps={steps}"
        others = sorted(set(after) ^ set(before))
        if others:
            return Mistake(
                f"{case} the given model has other parameters afterwards: {others[0]} is"
                f" {'new' if others[0] in after else 'gone'}.",
                UNTOUCHED,
            )
        frozen = [name for name, parameter in after.items() if not parameter.requires_grad]
        if frozen:
            return Mistake(
                f"{case} {len(frozen)} of {len(after)} parameters of the given model no longer ask"
                f" for gradients afterwards, such as {frozen[0]}.",
                UNTOUCHED,
            )
        moved = [name for name in start if not torch.equal(after[name], start[name])]
        if moved:
            return Mistake(
                f"{case} {len(moved)} of {len(after)} parameters of the given model have other"
                f" numbers afterwards, such as {moved[0]}.",
                UNTOUCHED,
            )
        if any(part.training for part in given.modules()):
            return Mistake(f"{case} the given model is in training mode afterwards.", UNTOUCHED)
    return None


UNTOUCHED = (
    "The given model is needed again and must stay as it was: begin with a copy,"
    " copy.deepcopy(model), and do all else to the copy."
)


def tell(evidence: Evidence) -> tuple[str, str]:
    """What to do where something of the given model has changed."""
    return "", UNTOUCHED if " the given model" in evidence.what else ""


LEARNS = (
    "Put the new head in before the optimizer is made, do zero_grad, backward and"
    " optimizer.step() in this order in each step, and return the model that was trained"
)


def _noticed_rate(start: dict, heads: dict) -> Mistake | None:
    """How far the first step goes: with Adam's rule, each number by the learning rate."""
    far = max(float((tensor - start[name]).abs().max()) for name, tensor in heads.items())
    if far == 0:
        return Mistake("With freeze=True and steps=1 the new head does not move.", f"{LEARNS}.")
    if abs(far - 0.02) > 0.002:
        return Mistake(
            "With freeze=True, steps=1 and learning_rate=0.02, the numbers of the head move by"
            f" {far:.2g} at most.",
            "AdamW's first step moves each number by about the learning rate. Look at the optimizer"
            " and its rate, and at how many steps are made.",
        )
    return None


def more(answer: Any) -> list:
    """Which parameters of the new model could learn, and what three steps make of its head."""
    images, labels = random(20, 1, 8, 8), torch.arange(20) % 10
    seen: list = []
    for freeze, steps in ((True, 0), (False, 0), (False, 3)):
        given = _given()
        try:
            made = answer(given, images.clone(), labels.clone(), freeze, steps, 0.02)
        except Exception as error:  # the learner's code may raise anything
            seen.append(type(error))
        else:
            seen.append(made is given)
            seen.append(sorted(n for n, p in made.named_parameters() if p.requires_grad))
            logits = made.eval()(images[:2]).flatten().tolist()
            seen.append([round(logit, 2) + 0.0 for logit in logits])
        seen.append(sorted(n for n, p in given.named_parameters() if p.requires_grad))
    return seen


COPY, FREEZE = "model = copy.deepcopy(model)", "model.requires_grad_(not freeze)"
WIDTH, PUT = "nn.Linear(model.class_token.shape[-1], 10)", "model.heads = head"
OPTIMIZER = "optimizer = torch.optim.AdamW(learned, lr=learning_rate)"
LOSS = "F.cross_entropy(logits, labels)"

SLIPS = (
    Slip(
        {
            "shape[-1], 10)": "shape[-1], int(labels.max()) + 1)",
        },
        "count the classes by the largest label that is given",
        "There are ten classes, even where a batch lacks the last of them",
    ),
    Slip(
        {COPY: "model.requires_grad_(False)\n    model = copy.deepcopy(model)"},
        "freeze the very model that you are given, before you copy it",
        (
            "It must stay as it was, and what can learn is part of it: copy first, and then"
            " requires_grad_(not freeze) on the copy"
        ),
    ),
    Slip(
        {COPY: "model.requires_grad_(not freeze)\n    model = copy.deepcopy(model)"},
        "freeze the very model that you are given (with freeze=True), before you copy it",
        "It must stay as it was, and that it learns is part of it: copy first, and freeze the copy",
    ),
    Slip(
        {COPY: "model = model"},
        "train the very model that you are given",
        "It is needed again for the next experiment. Work on a copy, copy.deepcopy(model)",
    ),
    Slip(
        {COPY: "model = copy.copy(model)"},
        "copy the model with copy.copy, which copies no parts and no parameters",
        "Its parts are those of the given model, so what is done to them is done to both:"
        " copy.deepcopy(model) copies them, too",
    ),
    Slip(
        {"not freeze": "freeze"},
        "freeze where you should not, and the other way round",
        "requires_grad_(not freeze)",
    ),
    Slip(
        {"(not freeze)": "(True)"},
        "train all parameters, whatever freeze says",
        "With freeze=True only the new head may change",
    ),
    Slip(
        {"(not freeze)": "(False)"},
        "freeze the model, whatever freeze says",
        "With freeze=False all parameters are trained",
    ),
    Slip(
        {"nn.init.zeros_(head.weight)": "nn.init.ones_(head.weight)"},
        "start the new head with ones",
        "Zeros are asked for",
    ),
    Slip(
        {"nn.init.zeros_(head.weight)": "pass", "nn.init.zeros_(head.bias)": "pass"},
        "leave the new head its random start values",
        "It starts with zeros, weight and bias: nn.init.zeros_",
    ),
    Slip(
        {WIDTH: "nn.Linear(model.heads[-1].in_features, 10)", PUT: "model.heads[-1] = head"},
        "replace the last layer only",
        "The layer before it, pre_logits, was made for the old task too. Replace all of"
        " model.heads",
    ),
    Slip(
        {PUT: "model.heads.head = head"},
        "replace the last layer only, model.heads.head, and leave pre_logits before it",
        "pre_logits was made for the old task, too. Replace all of model.heads",
    ),
    Slip(
        {WIDTH: "nn.Linear(64, 10)"},
        "make the new head for 64 numbers, whatever the model's width is",
        "It gets the class token: model.class_token.shape[-1] is its width",
    ),
    Slip(
        {"10)": "10, bias=False)", "nn.init.zeros_(head.bias)": "pass"},
        "make the new head without a bias",
        "A linear layer with weight and bias is asked for: nn.Linear(…, 10)",
    ),
    Slip(
        {"optimizer.zero_grad()": "pass"},
        "do not set the gradients to zero in every step",
        "Each step then adds the gradients of all steps before it: optimizer.zero_grad() belongs"
        " into the loop, before backward()",
    ),
    Slip(
        {LOSS: "F.cross_entropy(logits.softmax(dim=1), labels)"},
        "take the softmax before cross_entropy",
        "It takes logits, and has a softmax of its own",
    ),
    Slip(
        {
            PUT: "old = list(model.parameters())\n    model.heads = head",
            "[p for p in model.parameters() if p.requires_grad]": "old",
        },
        "return a model whose new head is still zero",
        LEARNS,
    ),
    Slip(
        {LOSS: "F.nll_loss(logits, labels)"},
        "take nll_loss of logits",
        "It wants logarithms of probabilities",
    ),
    Slip(
        {", lr=learning_rate": ""},
        "train at 0.001, which AdamW takes if it gets no learning rate",
        ("Give it lr=learning_rate"),
    ),
    Slip(
        {
            f"{OPTIMIZER}\n    for _ in range(steps):": (
                f"for _ in range(steps):\n        {OPTIMIZER}"
            )
        },
        "make a new optimizer in every step",
        "AdamW keeps running means of the gradients from step to step, and a new one has none: make"
        " it once, before the loop",
    ),
    Slip(
        {LOSS: "F.mse_loss(logits, F.one_hot(labels, 10).float())"},
        "take the mean squared difference from ones and zeros for the loss",
        "cross_entropy is asked for: F.cross_entropy(logits, labels)",
    ),
    Slip(
        {WIDTH: "nn.Linear(model.heads[-1].in_features, 10)"},
        "make the new head as wide as the old last layer takes, and replace all of model.heads",
        "It gets the class token: model.class_token.shape[-1] is its width",
    ),
    Slip(
        {WIDTH: "nn.Linear(model.heads.pre_logits.in_features, 10)"},
        "ask the old head's hidden layer, pre_logits, for its width",
        "Not every model has this layer. The head gets the class token, and its width is"
        " model.class_token.shape[-1]",
    ),
    Slip({"torch.optim.AdamW": "torch.optim.SGD"}, "take SGD", "AdamW is asked for"),
    Slip(
        {"torch.optim.AdamW": "torch.optim.Adam"},
        "take Adam, or AdamW without its weight decay",
        "torch.optim.AdamW is asked for, with no setting but the learning rate: it also lets the"
        " weights decay a little",
    ),
    Slip(
        {
            "torch.optim.AdamW": "torch.optim.Adam",
            "=learning_rate": "=learning_rate, weight_decay=0.01",
        },
        "take Adam, with weight_decay=0.01",
        "There the decay is a part of the gradient. torch.optim.AdamW is asked for, which lets the"
        " weights decay apart from it",
    ),
    Slip(
        {"range(steps)": "range(steps + 1)"},
        "take one step too many",
        "The loop is range(steps)",
    ),
    Slip(
        {"range(steps)": "range(steps - 1)"},
        "take one step too few",
        "The loop is range(steps)",
    ),
    Slip(
        {
            "logits = model(images)": "logits = model(images[:-1])",
            LOSS: "F.cross_entropy(logits, labels[:-1])",
        },
        "leave out the last image",
        "All images make one batch",
    ),
    Slip(
        {
            PUT: "model.heads = head\n    model.requires_grad_(not freeze)",
            "[p for p in model.parameters() if p.requires_grad]": "model.parameters()",
        },
        "freeze the whole model with the new head in it already",
        "Then nothing is left that could learn. Freeze first, put the new head in, and it learns",
    ),
    Slip(
        {PUT: "model.heads = head.requires_grad_(not freeze)"},
        "freeze the new head, too",
        "Put it on after the freezing: it always learns",
    ),
)

EXERCISE = Exercise(
    answer=my_transfer,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    more=more,
    hints=(
        (
            "In which order? A copy; which of its parameters may learn; the new head, which always"
            " learns; the optimizer, which must know the new head; the steps."
        ),
        (
            "copy.deepcopy(model), then requires_grad_(not freeze), then model.heads = nn.Linear(…,"
            " 10) filled with zeros: a layer made after the freezing is not frozen."
            " model.class_token.shape[-1] is its input width. Then the training step of notebook"
            " 07, steps times, on all images at once."
        ),
    ),
    same=(
        {"torch.optim.AdamW(learned": "torch.optim.AdamW(model.parameters()"},
        {"return model.eval()": "return model"},
        {"nn.init.zeros_(head.weight)": "head.weight.data.zero_()"},
    ),
    tolerance=1e-4,
)
