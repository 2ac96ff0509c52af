"""A training step never waits for a GPU. Seen without one: PyTorch's fake tensors have a device and
no numbers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from mnist_vit import training
from mnist_vit.data import ImageData, Loader
from mnist_vit.datasets import MNIST_MEAN, MNIST_STD
from mnist_vit.fast import speed_up
from mnist_vit.model import vit_mnist
from mnist_vit.optimizers import make_optimizers
from mnist_vit.recipe import Optimisation

SHAPE = (512, 1, 28, 28)


class Copies(TorchDispatchMode):
    """Counts the copies from one device to another that have to be waited for; a fake tensor
    refuses to be read."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        if operation.overloadpacket.__name__ in ("_to_copy", "copy_") and not (kwargs or {}).get(
            "non_blocking"
        ):
            devices = {
                tensor.device.type for tensor in (result, *args) if isinstance(tensor, Tensor)
            }
            self.count += len(devices) > 1
        return result


@pytest.fixture
def fake() -> FakeTensorMode:
    """Makes fake tensors; PyTorch 2.6 asks for a real GPU even for these."""
    mode = FakeTensorMode()
    try:
        with mode:
            torch.zeros(3).to("cuda")[:2]
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        pytest.skip(
            f"PyTorch {torch.__version__} has no fake tensors on a GPU where there is none"
            f" ({reason})"
        )
    return mode


@pytest.mark.parametrize("prepare", [nn.Module.train, speed_up, partial(speed_up, keep_patches=32)])
def test_no_step_waits(
    prepare: Callable[[nn.Module], nn.Module], fake: FakeTensorMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one copy in an epoch, the order of the images, however many steps it has."""
    digits = ImageData(
        torch.zeros(SHAPE, dtype=torch.uint8),
        torch.zeros(512, dtype=torch.long),
        tuple("0123456789"),
        "digits",
        (MNIST_MEAN,),
        (MNIST_STD,),
    )
    loader = Loader(
        digits,
        128,
        "cpu",
        True,
        {"degrees": 10.0, "flip": True, "shear": 0.1, "elastic": 0.7, "colour": 0.1},
    )
    slow = vit_mnist(4)
    model = prepare(slow)  # of a fast model, the slow one still makes the tokens
    recipe = Optimisation(label_smoothing=0.1, average=0.9)
    learner = training.Learner(model, recipe, batches=len(loader))

    def backward(
        loss: Tensor,
    ) -> None:  # autograd's engine asks for a real device, so only its result is made
        assert loss.device.type == "cuda"
        for parameter in model.parameters():
            parameter.grad = torch.empty_like(parameter)

    monkeypatch.setattr(Tensor, "backward", backward)
    with fake:
        for module in [*slow.modules(), *model.modules(), *learner.averaged.modules()]:
            for name, value in module._parameters.items():
                if value is not None:
                    module._parameters[name] = nn.Parameter(torch.empty(value.shape, device="cuda"))
        vars(loader.data).update(
            images=torch.empty(SHAPE, dtype=torch.uint8, device="cuda"),
            labels=torch.empty(512, dtype=torch.long, device="cuda"),
        )
        learner.optimizers = make_optimizers(model, "muon", 1e-3, 0.1)
        assert learner.optimizers["adamw"].defaults["fused"]
        with Copies() as copies:
            total = learner.train_on(loader, first_step=1)
    assert total.device.type == "cuda"
    assert copies.count == 1
