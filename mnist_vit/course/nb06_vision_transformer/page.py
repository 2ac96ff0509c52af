"""The blank page at the end of notebook 06: a whole model, written from a specification, and tests.

``check.page("page.py")`` runs the learner's tests on their model and on seven broken ones, and
gives the verdict of ``check.vit``. A right page can become ``my_vit.py``'s model.
"""

import importlib.util
import inspect
import io
import itertools
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.attention import attention_weights
from mnist_vit.model import VisionTransformer

from ...files import user_path
from ..checking import Mistake, describe, random, randomise, start_values
from ..checking.comparing import compare
from ..checking.raised import told
from ..keeping import PIECES, keep
from ..observing.undisturbed import stoppable, undisturbed
from ..whole_vit import judge_vit
from ..whole_vit.building import listed
from .bugs import BUGS, broken

CLASS = "VisionTransformer"
MODULE = "my_page"
TESTS = 3
SHAPES = (32, 8, 2, 2, 12, 20)  # the sizes with which the printed shapes are compared
POOL = "pool"  # ours has it, the specification has not
NORM = "norm_layer"  # two equal ones are two objects; check.vit compares what they do
LARGE = (32, 8, 1, 2, 64, 64)  # and those for the start values: enough numbers for a spread
BACK = (
    "To go back to the model of your pieces, run the cell of MyVisionTransformer in notebook 06 and"
    " its check again."
)
ASKED: tuple[dict[str, bool], ...] = (
    {},
    {"need_weights": False},
    {"average_attn_weights": False},
)
RECORDED = "the package can record them"
NO_WEIGHTS = (
    "the package cannot record them, and the later notebooks need them (rule 9): self_attention"
    " must have the attribute num_heads and be called as that of torchvision, forward(query, key,"
    " value, need_weights=True, average_attn_weights=True), and return its output and the weights:"
    " with average_attn_weights=False those of each head, (n, num_heads, tokens, tokens)"
)


def page(file: str | Path = "page.py", keep_it: bool = False) -> None:
    """Print the verdict on a page; with ``keep_it`` a right one goes into ``my_vit.py``.

    Args:
        file: a Python file with a class VisionTransformer and at least three functions
            ``test_…(kind)``. Each gets a class, builds it, and raises AssertionError if it is
            wrong. The file is run.
        keep_it: whether a right page becomes the model of ``my_vit.py``, in one section.
    """
    with stoppable("page"):
        try:
            module = _run(user_path(file))
            kind = _class_in(module)
            passed, lines = judge_page(module, kind)
        except (Mistake, ValueError) as problem:
            print(f"page: {problem}")
            return
        print("\n".join(lines))
        if passed and keep_it:
            print(keep("vision_transformer", kind))
            print(BACK)


def judge_page(module: ModuleType, kind: Any) -> tuple[bool, list[str]]:
    """Whether model and tests are right, and the lines to print."""
    tests = _tests_in(module)
    lines = []
    is_right = len(tests) >= TESTS
    if not is_right:
        lines.append(f"tests: {len(tests)}, and {TESTS} are needed, called test_…")
    found: set[str] = set()
    for name, test in tests.items():
        own, ours, caught = _judged(test, kind)
        is_right = is_right and not own and not ours
        if not own and not ours:  # a test that no right model passes finds nothing
            found |= caught
        lines.append(f"{name}: {_said(own, ours, caught)}")
    lines.append(f"broken models that your tests find, all together: {len(found)} of {_many()}")
    argument = _other_argument(kind)
    if argument:
        lines.append(f"arguments: {argument}")
    with undisturbed():
        other = _other_line(_printed(kind), _printed(VisionTransformer))
    lines.append(f"print_shapes: {other or 'the ten lines'}")
    passed, verdict = judge_vit(kind)
    if passed and not argument:
        with undisturbed():
            start = _wrong_start(kind)
            norms, attention = _wrong_norms(kind), _wrong_attention(kind)
            has_weights = _has_weights(kind)
        verdict.append(f"start values: {start or 'those of the table'}")
        verdict.append(f"norm_layer: {norms or 'it makes every norm'}")
        verdict.append(f"self_attention: {attention or 'what comes back is as in torch'}")
        verdict.append(f"attention weights: {RECORDED if has_weights else NO_WEIGHTS}")
        passed = has_weights and not (start or norms or attention)
    return passed and not other and not argument and is_right, [*lines, *verdict]


def _many() -> int:
    return len(BUGS) - 1


def _run(path: Path) -> ModuleType:
    """Run a file as a fresh module. Mistake, in a sentence, if that fails."""
    if not path.is_file():
        raise Mistake(f"there is no file {path}. Write it, or name it: check.page(file).")
    spec = importlib.util.spec_from_file_location(MODULE, path.absolute())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module  # where the text of its classes is looked for
    try:
        with undisturbed(), redirect_stdout(io.StringIO()):
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a learner's exit() must not end the notebook
        raise Mistake(f"{path.name} cannot be run: {told(error)}") from None
    return module


def _class_in(module: ModuleType) -> Any:
    """The model's class. Mistake if there is none of the file's own."""
    kind = getattr(module, CLASS, None)
    is_class = isinstance(kind, type) and issubclass(kind, nn.Module)
    if not is_class or kind.__module__ != MODULE:
        raise Mistake(f"the file must define a class {CLASS}, an nn.Module.")
    taken = sorted(PIECES.keys() & vars(module).keys())
    if taken:
        raise Mistake(
            f"{', '.join(taken)}: my_vit.py has a section of that name. On this page everything is"
            " new: call it otherwise."
        )
    return kind


def _tests_in(module: ModuleType) -> dict[str, Callable[[Any], None]]:
    """The tests, in the order of the file."""
    found: dict[str, Callable[[Any], None]] = {}
    for name, value in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(value):
            found[name] = value
    return found


def _judged(test: Callable[[Any], None], kind: Any) -> tuple[str, str, set[str]]:
    """Why a test fails on their model and on a right one; and the broken models that it finds."""
    own = _failure(test, kind)
    ours = _failure(test, VisionTransformer)
    caught: set[str] = set()
    for bug in BUGS:
        if bug != "right" and _failure(test, partial(broken, bug)):
            caught.add(bug)
    return own, ours, caught


def _failure(test: Callable[[Any], None], kind: Any) -> str:
    """What a test raises, in words; nothing if it passes."""
    try:
        with undisturbed(), redirect_stdout(io.StringIO()):
            torch.manual_seed(0)
            test(kind)
    except KeyboardInterrupt:
        raise
    except AssertionError as error:
        return str(error).partition("\n")[0] or "it fails"
    except BaseException as error:
        return told(error)
    return ""


def _said(own: str, ours: str, caught: set[str]) -> str:
    if own:
        return f"does not pass on your model ({own})"
    if ours:
        return (
            "does not pass on a right model: it asks something that the specification does not say,"
            f" or contradicts ({ours})"
        )
    return f"passes on your model, and finds {len(caught)} of {_many()} broken ones"


def _other_line(own: str, ours: str) -> str:
    """The first printed line that is another one; nothing if there is none."""
    if own == ours:
        return ""
    for line, right in itertools.zip_longest(own.splitlines(), ours.splitlines(), fillvalue="none"):
        if line != right:
            return f"other lines than ours; the first is {line!r}, and ours {right!r}"
    return "other lines than ours"


def _wrong_start(kind: Callable[..., nn.Module]) -> str:
    """Which parameter starts with something else than the table says; nothing if none does."""
    own = kind(*LARGE, num_classes=5, representation_size=64)
    ours = VisionTransformer(*LARGE, num_classes=5, representation_size=64)
    other = _other_names(own, ours)
    if other:
        return f"not compared: {other}"
    try:
        start_values(own, ours)
    except Mistake as problem:
        return f"{problem.said} {problem.instead}"
    return ""


def _wrong_norms(kind: Callable[..., nn.Module]) -> str:
    """Which norms are not made by norm_layer; nothing if the logits are right with another one."""
    made: list[nn.Module] = []

    def another(width: int) -> nn.Module:
        made.append(nn.LayerNorm(width, eps=0.5))
        return made[-1]

    ours = randomise(VisionTransformer(*SHAPES, num_classes=5, norm_layer=another)).eval()
    names = [name for name, part in ours.named_modules() if part in made]
    images = random(3, 3, SHAPES[0], SHAPES[0])
    try:
        own = kind(*SHAPES, num_classes=5, norm_layer=another).eval()
        own.load_state_dict(ours.state_dict())
        if torch.allclose(own(images), ours(images), atol=1e-4):
            return ""
        left = [name for name in names if own.get_submodule(name) not in made]
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"with another norm {told(error)}"
    if not left:
        return "with another norm the logits are wrong (rule 1)"
    return f"it must make every norm (rule 1), and it does not make {listed(left)}"


def _wrong_attention(kind: Callable[..., nn.Module]) -> str:
    """What self_attention gives back that torch's layer does not; nothing if both give the same."""
    try:
        with torch.no_grad():
            own = (
                kind(*SHAPES).eval().get_submodule("encoder.layers.encoder_layer_0.self_attention")
            )
            right = nn.MultiheadAttention(SHAPES[4], SHAPES[3], batch_first=True).eval()
            right.load_state_dict(own.state_dict())
            # 3 pictures, 5 tokens, 2 heads: an axis of another meaning has another length
            query, key, value = (random(3, 5, SHAPES[4], seed=seed) for seed in (1, 2, 3))
            for options in ASKED:
                problem = _other_pair(own, right, (query, key, value), options)
                if problem:
                    return f"with {problem} (rule 9)"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"{told(error)} (rule 9)"
    return ""


def _other_pair(
    own: nn.Module, right: nn.Module, given: tuple[Tensor, ...], options: dict[str, bool]
) -> str:
    """How the output or the weights differ for these options; nothing if they do not."""
    asked = " and ".join(f"{name}={value}" for name, value in options.items())
    said = asked or "query, key and value alone"
    pair, ours = own(*given, **options), right(*given, **options)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return f"{said} it must return two things, and returns {describe(pair)}"
    for what, value, expected in zip(("output", "tensor of weights"), pair, ours, strict=True):
        if expected is None and value is not None:
            return f"{said} the weights must be None, and they are {describe(value)}"
        problem = compare(f"the {what}", value, expected, 1e-5) if expected is not None else None
        if problem:
            return f"{said}, all three different, {problem.rstrip('.')}"
    return ""


def _other_names(own: nn.Module, ours: nn.Module) -> str:
    """Which parameters have other names than in the specification; nothing if none has."""
    names = [name for name, _ in own.named_parameters()]
    right = [name for name, _ in ours.named_parameters()]
    missing = [name for name in right if name not in names]
    added = [name for name in names if name not in right]
    if not missing and not added:
        return ""
    parts = {".".join(name.split(".")[:3]) for name in missing + added}
    is_in_block = all(part.startswith("encoder.layers.encoder_layer_") for part in parts)
    said = f"other names than in rule {4 if is_in_block else 3} of the specification."
    if missing:
        said += f" Missing: {listed(missing)}."
    if added:
        said += f" Not in it: {listed(added)}."
    return said


def _other_argument(kind: Callable[..., nn.Module]) -> str:
    """The first argument that is another one than in the specification; nothing if none is."""
    own = inspect.signature(kind).parameters
    for name, ours in inspect.signature(VisionTransformer).parameters.items():
        if name == POOL:
            continue
        if name not in own:
            return f"there is none called {name} (rule 1)"
        if name != NORM and own[name].default != ours.default:
            return f"{name} must be {_default(ours)}, and it is {_default(own[name])} (rule 1)"
    return ""


def _default(argument: inspect.Parameter) -> str:
    if argument.default is inspect.Parameter.empty:
        return "without a default"
    return f"{argument.default!r:.40} by default"


def _has_weights(kind: Callable[..., nn.Module]) -> bool:
    """Whether the package can record its attention weights, as the later notebooks do."""
    images = torch.zeros(1, 3, SHAPES[0], SHAPES[0])
    expected = attention_weights(VisionTransformer(*SHAPES), images)
    try:
        return attention_weights(kind(*SHAPES), images).shape == expected.shape
    except KeyboardInterrupt:
        raise
    except BaseException:  # a model that cannot be recorded has a reason of any kind
        return False


def _printed(kind: Callable[..., nn.Module]) -> str:
    """The lines that print_shapes gives, or why there are none."""
    out = io.StringIO()
    try:
        with torch.no_grad(), redirect_stdout(out):
            sizes = {"num_classes": 5, "representation_size": 7, "print_shapes": True}
            kind(*SHAPES, **sizes)(torch.zeros(1, 3, SHAPES[0], SHAPES[0]))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return told(error)
    return out.getvalue()
