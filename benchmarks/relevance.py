"""Time and memory of relevance beside a forward pass, for two large models with random weights.

    python -m benchmarks relevance vit_b_16  # torchvision's, 224 pixels
    python -m benchmarks relevance all --store  # and timm's DINOv2 S/14 with registers, 518 pixels

CPU seconds of one picture, one thread, the least of three; megabytes that each adds to the process
at its peak, each in a process of its own.
"""

import json
import resource
import subprocess
import sys
import time
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit import attention_weights
from mnist_vit.forward import logits_of
from mnist_vit.relevance import relevance
from tools import ROOT

FILE = ROOT / "benchmarks" / "results" / "relevance.json"
SIZES = {"vit_b_16": 224, "vit_small_patch14_reg4_dinov2": 518}
NAMES = list(SIZES)
ROUNDS = 3
WAYS = ("forward", "attention weights, last layer, class token", "relevance")


def run(name: str) -> dict[str, Any]:
    """Time each way of one model in a process of its own."""
    found: dict[str, Any] = {"pixels": SIZES[name]}
    for way in WAYS:
        command = [sys.executable, "-m", "benchmarks.relevance", name, way]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
        found[way] = json.loads(told.stdout)
    return found


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name == "vit_b_16":
        from torchvision.models import vit_b_16

        model = vit_b_16()
        nn.init.normal_(model.heads.head.weight, std=0.02)  # it starts at zero
        return model.eval()
    import timm

    return timm.create_model(name, num_classes=1000).eval()


def once(way: str, model: nn.Module, images: Tensor) -> None:
    if way == "relevance":
        relevance(model, images)
    elif way == "forward":
        with torch.no_grad():
            logits_of(model, images)
    else:
        attention_weights(model, images, query=0, layers=[11])


def measure(name: str, way: str) -> dict[str, float]:
    """CPU seconds of a picture, and megabytes at the peak beside those of the model."""
    torch.set_num_threads(1)
    model = build(name)
    images = torch.randn(1, 3, SIZES[name], SIZES[name])
    before = peak()
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        once(way, model, images)
        seconds.append(time.process_time() - start)
    return {"CPU seconds": round(min(seconds), 2), "MB more": round(peak() - before)}


def peak() -> float:
    """The most memory that this process has held, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
