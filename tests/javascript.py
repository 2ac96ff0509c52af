"""The page's JavaScript in V8 without a browser (mini-racer): tensors go in and come out as they
are."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mnist_vit
from mnist_vit.explorer import page_config

EXPLORER = Path(mnist_vit.__file__).parent / "explorer"


def data_of(page: Path) -> dict[str, Any]:
    """What a page is told: title, examples, matrix and more."""
    text = page.read_text(encoding="utf-8")
    return json.loads(
        re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)[1]
    )


class Engine:
    """One V8; what is loaded stays loaded."""

    def __init__(self, *files: str) -> None:
        self.racer = pytest.importorskip("py_mini_racer").MiniRacer()
        for file in files:
            self.racer.eval((EXPLORER / file).read_text(encoding="utf-8"))

    def run(self, code: str) -> Any:
        """The value of an expression, by way of JSON."""
        return json.loads(self.racer.eval(f"JSON.stringify({code}) ?? 'null'"))

    def put(self, name: str, values: Tensor, kind: str = "Float32Array") -> None:
        """A variable of that name holds the tensor's numbers."""
        array = (
            values.detach()
            .cpu()
            .numpy()
            .astype({"Float32Array": np.float32, "Uint8Array": np.uint8}[kind])
        )
        buffer = self.racer.eval(f"globalThis.{name} = new {kind}({array.size}); {name}.buffer")
        np.frombuffer(buffer, array.dtype)[:] = array.ravel()

    def get(self, name: str) -> Tensor:
        """The numbers of a typed array."""
        kind = {"Float32Array": np.float32, "Uint8Array": np.uint8}[
            self.run(f"{name}.constructor.name")
        ]
        buffer = self.racer.eval(
            f"globalThis.kept = {name}.slice(); kept.buffer"
        )  # without a name V8 may free it
        return torch.from_numpy(np.frombuffer(buffer, kind).copy())

    def put_model(self, model: nn.Module) -> None:
        """``model`` is the VisionTransformer of model.js with these weights."""
        self.racer.eval("globalThis.weights = {}; 0")
        for name, values in model.state_dict().items():
            self.put("tensor", values)
            self.racer.eval(f"weights[{json.dumps(name)}] = tensor; 0")
        config = page_config(model)
        self.racer.eval(
            f"globalThis.model = new VisionTransformer({json.dumps(config)}, weights); 0"
        )

    def forward(self, image: Tensor, changes: str = "{}") -> tuple[Tensor, Tensor]:
        """Logits, (k,), and all attention weights, (num_layers, num_heads, s, s); none of a layer
        that is off."""
        self.put("image", image)
        self.racer.eval(f"globalThis.result = model.forward(image, {changes}); 0")
        self.racer.eval("globalThis.recorded = result.attention.filter(Boolean).flat()")
        self.racer.eval(
            "globalThis.together = new Float32Array(recorded.length * result.tokens.length ** 2)"
        )
        self.racer.eval("recorded.forEach((head, i) => together.set(head, i * head.length)); 0")
        heads, tokens = self.run("model.num_heads"), self.run("result.tokens.length")
        return self.get("result.logits"), self.get("together").view(-1, heads, tokens, tokens)


@contextmanager
def engine(*files: str) -> Iterator[Engine]:
    """An engine that is closed at the end; an open one keeps its process from ending."""
    one = Engine(*files)
    try:
        yield one
    finally:
        one.racer.close()
