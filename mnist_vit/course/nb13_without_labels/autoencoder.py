"""A masked autoencoder around a Vision Transformer, and how notebook 13 trains.

Source: He et al. 2022, "Masked Autoencoders Are Scalable Vision Learners",
https://arxiv.org/abs/2111.06377.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...augmentation import augment
from ...data import ImageData
from ...model import Encoder
from ...optimizers import make_optimizers
from ...training import schedule, sincos_positions

WARMUP = 0.1  # the share of the steps in which the learning rate rises
DIGITS = {"degrees": 10.0, "scale": 0.1, "shift": 1.0, "elastic": 0.7}


class MaskedAutoencoder(nn.Module):
    """Encodes the visible patches of each picture, and predicts the pixels of all patches.

    The encoder is the ``vit``'s own: its ``conv_proj``, ``class_token`` and ``encoder``; its heads
    are not used. The decoder is narrower, has one block, and is thrown away after training.

    Args:
        vit: a Vision Transformer with torchvision's names.
        keep: number of visible patches of a picture.
        mask: (tokens, noise, keep) -> the visible tokens, and the order of the patches.
        put_back: (visible, mask_token, order) -> a token for each patch, in reading order.
        width: numbers a token has in the decoder.
        encoder: the class of the decoder's block.

    Shape: pictures (n, c, h, w), noise (n, num_patches) -> patches (n, num_patches, c * p * p), and
    the order of the patches, (n, num_patches), the visible ones first.
    """

    def __init__(
        self,
        vit: nn.Module,
        keep: int,
        mask: Callable[..., Any],
        put_back: Callable[..., Tensor],
        width: int = 32,
        encoder: Callable[..., nn.Module] = Encoder,
    ) -> None:
        super().__init__()
        self.vit = vit
        self.keep = keep
        self.mask = mask
        self.put_back = put_back
        num_patches = vit.encoder.pos_embedding.shape[1] - 1
        self.narrow = nn.Linear(vit.class_token.shape[2], width)
        self.mask_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.decoder = encoder(num_patches, 1, 2, width, 4 * width, 0.0, 0.0)
        self.to_pixels = nn.Linear(width, vit.conv_proj.weight[0].numel())
        sincos_positions(vit)
        self.start_decoder_positions()

    def start_decoder_positions(self) -> None:
        """Let the decoder's positions start as sines and cosines of row and column, too."""
        whole: Any = nn.Module()
        whole.encoder = self.decoder
        sincos_positions(whole)

    def forward(self, images: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        vit = self.vit
        places = vit.encoder.pos_embedding
        # (n, c, h, w) -> (n, num_patches, hidden_dim), and each patch's position
        tokens = vit.conv_proj(images).flatten(2).transpose(1, 2) + places[:, 1:]
        # (n, num_patches, hidden_dim) -> (n, keep, hidden_dim)
        visible, order = self.mask(tokens, noise, self.keep)
        first = (vit.class_token + places[:, :1]).expand(len(images), -1, -1)
        x = torch.cat([first, visible], dim=1)
        x = vit.encoder.ln(vit.encoder.layers(x))
        # (n, keep, width) -> (n, num_patches, width): a mask token where a patch is hidden
        x = self.put_back(self.narrow(x[:, 1:]), self.mask_token, order)
        return self.to_pixels(self.decoder(x)), order


def to_patches(images: Tensor, size: int) -> Tensor:
    """Cut pictures into patches: (n, c, h, w) -> (n, num_patches, c * size * size)."""
    return F.unfold(images, size, stride=size).transpose(1, 2)


def to_pictures(patches: Tensor, image_size: int, size: int) -> Tensor:
    """Put patches together: (n, num_patches, c * size * size) -> (n, c, h, w)."""
    return F.fold(patches.transpose(1, 2), image_size, size, stride=size)


def batches(
    data: ImageData, steps: int, batch: int, seed: int, changes: dict[str, Any]
) -> Iterator[tuple[Tensor, Tensor, torch.Generator]]:
    """Batches of augmented, normalised pictures and labels, and the source of random numbers."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        while len(order) < batch:
            order = torch.cat([order, torch.randperm(len(data), generator=generator)])
        chosen, order = order[:batch], order[batch:]
        images = data.images[chosen].float() / 255
        if changes:
            images = augment(images, generator, **changes)
        yield data.normalise(images), data.labels[chosen], generator


def descend(model: nn.Module, losses: Iterator[Tensor], steps: int, learning_rate: float) -> None:
    """Make a step for each loss: Muon for the encoders' matrices, AdamW for the rest."""
    model.train()
    optimizers = make_optimizers(model, "muon", learning_rate, 0.05).values()
    for step, loss in enumerate(losses):
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * schedule(step, steps, WARMUP)
            optimizer.step()
    model.eval()


def pretrain(
    autoencoder: MaskedAutoencoder,
    data: ImageData,
    hidden_loss: Callable[..., Tensor],
    steps: int,
    *,
    batch: int = 100,
    learning_rate: float = 0.006,
    seed: int = 0,
    changes: dict[str, Any] = DIGITS,
    after: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Train without labels: predict the patches that are hidden.

    Args:
        data: the pictures; their labels are not used.
        hidden_loss: (predicted, patches, order, keep) -> a number.
        steps, batch, learning_rate, seed: of the training.
        changes: keywords of ``augment``.
        after: called after each step with its number, from 1, and its loss.
    """
    size = autoencoder.vit.conv_proj.kernel_size[0]

    def losses() -> Iterator[Tensor]:
        stream = batches(data, steps, batch, seed, changes)
        for step, (images, _, generator) in enumerate(stream, start=1):
            patches = to_patches(images, size)
            noise = torch.rand(patches.shape[:2], generator=generator)
            predicted, order = autoencoder(images, noise)
            loss = hidden_loss(predicted, patches, order, autoencoder.keep)
            yield loss
            after(step, loss.item())

    descend(autoencoder, losses(), steps, learning_rate)


def train_with_labels(
    model: nn.Module,
    data: ImageData,
    steps: int,
    *,
    batch: int = 50,
    learning_rate: float = 0.006,
    seed: int = 0,
    changes: dict[str, Any] = DIGITS,
) -> None:
    """Train all of a model with the labels of the pictures; the arguments are ``pretrain``'s."""

    def losses() -> Iterator[Tensor]:
        for images, labels, _ in batches(data, steps, batch, seed, changes):
            yield F.cross_entropy(model(images), labels)

    descend(model, losses(), steps, learning_rate)


@torch.no_grad()
def reconstruct(autoencoder: MaskedAutoencoder, images: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Predict the hidden patches of normalised pictures, by noise of this seed.

    Returns:
        The patches, (n, num_patches, c * p * p), predicted where hidden and given where visible;
        and the order of the patches, (n, num_patches).
    """
    patches = to_patches(images, autoencoder.vit.conv_proj.kernel_size[0])
    noise = torch.rand(patches.shape[:2], generator=torch.Generator().manual_seed(seed))
    predicted, order = autoencoder.eval()(images, noise)
    visible = order[:, : autoencoder.keep, None].expand(-1, -1, patches.shape[2])
    return predicted.scatter(1, visible, patches.gather(1, visible)), order


def hidden_error(autoencoder: MaskedAutoencoder, images: Tensor, seed: int = 0) -> float:
    """The mean squared error on the hidden patches of normalised pictures."""
    patches = to_patches(images, autoencoder.vit.conv_proj.kernel_size[0])
    predicted, _ = reconstruct(autoencoder, images, seed)
    hidden = patches.shape[1] - autoencoder.keep  # the visible ones are given, without an error
    return (predicted - patches).square().mean().item() * patches.shape[1] / hidden


@torch.no_grad()
def visible_error(autoencoder: MaskedAutoencoder, images: Tensor, seed: int = 0) -> float:
    """The mean squared error of what is predicted for the visible patches, by the same noise."""
    patches = to_patches(images, autoencoder.vit.conv_proj.kernel_size[0])
    noise = torch.rand(patches.shape[:2], generator=torch.Generator().manual_seed(seed))
    predicted, order = autoencoder.eval()(images, noise)
    error = (predicted - patches).square().mean(dim=2)
    return error.gather(1, order[:, : autoencoder.keep]).mean().item()


@torch.no_grad()
def features(vit: nn.Module, images: Tensor) -> Tensor:
    """The mean of the patches' tokens after the encoder, with nothing hidden: (n, hidden_dim)."""
    found = []
    for some in images.split(500):
        x = vit.conv_proj(some).flatten(2).transpose(1, 2)
        first = vit.class_token.expand(len(some), -1, -1)
        found.append(vit.encoder(torch.cat([first, x], dim=1))[:, 1:].mean(dim=1))
    return torch.cat(found)
