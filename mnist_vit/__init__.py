"""Learn Vision Transformers by building one: torchvision's, to the last bit, on handwritten digits.

``mnist_vit.train(model)``, ``mnist_vit.evaluate(model)`` and
``mnist_vit.visualize_attention(model)`` take the model you built and the weights it holds;
``load_model("vit_mnist")`` returns a trained one; ``attention_weights`` also takes Vision
Transformers of torchvision, timm and Hugging Face; ``mnist_vit.check`` holds the checks of the
exercises.
"""

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

# for editors; Python imports each name on first use, so that the command line's help needs no torch
if TYPE_CHECKING:
    from .attention import attention_weights, record_attention
    from .jobs import evaluate, explore, predict, train, visualize_attention
    from .model import (
        MLP,
        Encoder,
        EncoderBlock,
        MLPBlock,
        MultiHeadAttention,
        VisionTransformer,
        vit_mnist,
    )
    from .weights import load_model, load_weights, save_weights

# Threads of torch that wait for each other sleep, so that other programs can run; torch reads this
# when it is loaded.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__version__ = "1.0.0"

__all__ = [
    "MLP",
    "Encoder",
    "EncoderBlock",
    "MLPBlock",
    "MultiHeadAttention",
    "VisionTransformer",
    "attention_weights",
    "evaluate",
    "explore",
    "load_model",
    "load_weights",
    "predict",
    "record_attention",
    "save_weights",
    "train",
    "visualize_attention",
    "vit_mnist",
]


def __getattr__(name: str) -> Any:
    modules = ("model", "attention", "weights", "jobs") if name in __all__ else ()
    for module in (importlib.import_module(f".{module}", __name__) for module in modules):
        if name in module.__all__:
            return globals().setdefault(name, getattr(module, name))
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f".{name}", __name__)


def __dir__() -> list[str]:
    return [*__all__, "__version__", "check"]
