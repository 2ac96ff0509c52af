"""Exercise: build a model from a file that holds its sizes and its weights."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...model import VisionTransformer
from ..checking import Evidence, Exercise, Mistake, Slip, random, randomise


def my_load(kind, path):
    # a class, a file with {"sizes": …, "weights": …} -> a model of that class, in eval mode
    content = torch.load(path, weights_only=True)
    model = kind(**content["sizes"])
    model.load_state_dict(content["weights"])
    return model.eval()


SIZES = {
    "image_size": 8,
    "patch_size": 4,
    "num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 12,
    "mlp_dim": 16,
    "dropout": 0.2,
    "num_classes": 3,
    "in_channels": 1,
}


class Given(VisionTransformer):
    """Another class than the usual one, of the same sizes."""


class Small(nn.Module):
    """A class with keywords of its own."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inside, outside)
        self.register_buffer("scale", torch.zeros(outside))


class Code:
    """Not a tensor: loading it would run code of the file."""


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    model = randomise(VisionTransformer(**SIZES)).eval()  # type: ignore[arg-type]
    images, weights = random(3, 1, 8, 8), model.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.pth"
        torch.save({"sizes": SIZES, "weights": weights}, path)
        made = answer(Given, path)
        if made is None:
            yield "the model", None
            return
        if not isinstance(made, nn.Module):
            raise Mistake(
                f"the answer must return the model, but it returned {type(made).__name__}.",
                RETURNED.get(type(made).__name__, ""),
            )
        if not isinstance(made, Given):
            raise Mistake(
                f"for the class {Given.__name__} it returns a {type(made).__name__}.",
                "The class is given as kind: kind(**sizes) builds a model of it.",
            )
        with torch.no_grad():
            yield "logits of the loaded model, in eval mode", made.eval()(images)
        made = answer(VisionTransformer, path)
        yield "whether the model comes in eval mode", _mode(made)
        few = {name: tensor for name, tensor in weights.items() if "pos_embedding" not in name}
        torch.save({"sizes": SIZES, "weights": few}, path)
        yield MISSING, outcome(answer, path)
        torch.save({"sizes": SIZES, "weights": weights | {"extra": torch.ones(2)}}, path)
        yield EXTRA, outcome(answer, path)
        loaded = _loaded(answer, path)
        yield "a model of a class with other keywords", loaded["layer.weight"]
        yield "the buffer of that model, which is in the file", loaded["scale"]
        torch.save({"sizes": SIZES, "weights": weights, "more": Code()}, path)
        yield (
            "what a file gives that holds more than tensors, numbers and text",
            outcome(answer, path),
        )


def _mode(model: nn.Module) -> bool | str:
    """True if all of a model is in eval mode; False if none of it is; else which part is not."""
    trains = [name for name, part in model.named_modules() if part.training]
    if not trains or trains[0] == "":
        return not trains
    return f"True of the model itself and False of its parts, such as {trains[-1]}"


def _loaded(answer: Any, path: Path) -> dict[str, torch.Tensor]:
    """The state dict of a model of the class with other keywords and a buffer."""
    sizes = {"outside": 3, "inside": 2}
    right = randomise(Small(**sizes)).state_dict()
    right["scale"] = torch.tensor([1.0, 2.0, 3.0])
    torch.save({"sizes": sizes, "weights": right}, path)
    return answer(Small, path).state_dict()


def outcome(answer: Any, path: Path) -> str:
    """Whether loading the file raises an error."""
    try:
        answer(VisionTransformer, path)
    except Exception:
        return "an error"
    return "no error"


def tell(evidence: Evidence) -> tuple[str, str]:
    """What is made of a file that should be refused; which parts are in another mode."""
    if evidence.what.startswith("whether") and isinstance(evidence.value, str):
        return (
            "Each part has a mode of its own, and those inside go on as in training.",
            "model.eval() sets the mode of the model and of all its parts; model.training = False"
            " only its own.",
        )
    if evidence.value != "no error":
        return "", ""
    if evidence.what == EXTRA:
        return (
            "Your code makes a model, without an error, of a file whose state dict has one more"
            " name than the model's.",
            "load_state_dict compares all names and shapes, and raises an error where they differ:"
            " give it the whole state dict of the file.",
        )
    if evidence.what == MISSING:
        return (
            "Your code makes a model, without an error, of a file in which the tensor"
            " encoder.pos_embedding is missing.",
            "load_state_dict raises an error where names differ, unless strict=False is said. Let"
            " that error stop the program.",
        )
    return (
        "The file holds an object of a class, which loading it would make, and your code loads it.",
        "torch.load(path, weights_only=True) refuses such a file.",
    )


def notice(answer: Any) -> Mistake | None:
    """Which tensors of the model are not those of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.pth"
        loaded = _loaded(answer, path)
        weights = torch.load(path, weights_only=True)["weights"]
        torch.manual_seed(7)  # other start values
        again = answer(Small, path).state_dict()
    other = [name for name, tensor in weights.items() if not torch.equal(loaded[name], tensor)]
    if not other or other == ["scale"]:  # a buffer, which is asked for by itself
        return None
    said = f"Of the tensors in a file, {', '.join(weights)}, the model does not hold the numbers of"
    said += f" {', '.join(other)}."
    if any(not torch.equal(loaded[name], again[name]) for name in other):
        said += " Loaded a second time it holds others again."
    return Mistake(
        said,
        "It should hold the file's numbers as they are, and nothing of its random start values:"
        " model.load_state_dict(weights).",
    )


MISSING = "what a file gives in which a tensor is missing"
EXTRA = "what a file gives that has a tensor more than the model"
RETURNED = {  # what is returned in the place of the model, by its type
    "tuple": "Only the model is asked for: return model.eval().",
    "method": "A method is called with brackets: model.eval() sets the mode, and gives the model.",
    "_IncompatibleKeys": (
        "load_state_dict changes the model, and returns the names that did not fit. Call it on a"
        " line of its own."
    ),
}
READ, BUILD, FILL = (
    "torch.load(path, weights_only=True)",
    'kind(**content["sizes"])',
    'model.load_state_dict(content["weights"])',
)

SLIPS = (
    Slip(
        {'kind(**content["sizes"])': 'kind(*content["sizes"].values())'},
        "hand the sizes over by their order",
        "They have names, as in the class: kind(**sizes)",
    ),
    Slip(
        {BUILD: 'kind(content["sizes"])'},
        "hand over one object, such as the dict, in the place of keywords",
        "Two stars make keywords of it: kind(**sizes)",
    ),
    Slip(
        {FILL: "pass"},
        "build the model and leave its start values in it",
        "load_state_dict copies the weights into it",
    ),
    Slip(
        {FILL: 'model.load_state_dict(content["weights"], strict=False)'},
        "load what the file holds, and no more, as load_state_dict does with strict=False, or catch"
        " the error",
        "A tensor that is missing in the file then keeps its start value, without an error."
        " load_state_dict with strict=True, which is the default, raises one: let it stop the"
        " program",
    ),
    Slip(
        {
            FILL: (
                "for parameter, tensor in zip(model.parameters(), content['weights'].values()):\n"
                "        parameter.data.copy_(tensor)"
            )
        },
        "go through parameters and tensors side by side, by their order",
        "A state dict has buffers, too, and its order may be another one: load_state_dict goes by"
        " the names",
    ),
    Slip(
        {
            FILL: (
                "for name, parameter in model.named_parameters():\n"
                '        parameter.data.copy_(content["weights"][name])'
            )
        },
        "load the parameters alone",
        "A state dict holds a module's buffers, too: load_state_dict takes all that the file holds",
    ),
    Slip(
        {"model.eval()": "model"},
        "return the model in training mode",
        "Dropout goes on in it. Call eval()",
    ),
    Slip(
        {READ: "torch.load(path, weights_only=False)"},
        "let the file run code of its own",
        "A file from elsewhere can hold any code. weights_only=True loads tensors, numbers and"
        " text, and refuses the rest",
    ),
)

EXERCISE = Exercise(
    answer=my_load,
    compare=compare,
    stars=1,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    hints=(
        "Three steps: the file, the model, its numbers. And in which mode is a new model?",
        (
            'torch.load(path, weights_only=True) gives the dict. kind(**content["sizes"]) builds'
            " the model, load_state_dict fills it, eval() sets the mode."
        ),
    ),
    same=(
        {READ: "torch.load(path)"},
        {FILL: 'model.load_state_dict(content["weights"], strict=True)'},
    ),
)
