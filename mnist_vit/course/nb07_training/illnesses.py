"""Five small runs, one of them healthy; which letter has which illness is the exercise
``diagnose``."""

from functools import cache

import torch
import torch.nn.functional as F
from torch import nn

from mnist_vit.data import load_embedded

from .diagnose import HIDDEN


def curves() -> dict[str, list[dict]]:
    """For each letter, and "healthy", a row an epoch: see ``run``."""
    return {"healthy": run("")} | {letter: run(illness) for letter, illness in HIDDEN.items()}


@cache
def run(illness: str, epochs: int = 15) -> list[dict]:
    """A small MLP with dropout, 1,000 digits; a dict for each epoch.

    ``loss`` and ``accuracy`` are those of the training digits as they passed; ``measured`` holds
    three accuracies on the same 250 other digits, measured one after the other.
    """
    learn = load_embedded("train").select(torch.arange(4000) % 4 == 0, "1,000 digits")
    other = load_embedded("validation").select(torch.arange(1000) % 4 == 0, "250 other digits")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 64), nn.GELU(), nn.Dropout(0.5), nn.Linear(64, 10)
        )
        optimizer, rows = torch.optim.AdamW(model.parameters(), lr=2e-3), []
        images, test_images = learn.normalise(learn.images), other.normalise(other.images)
        if illness == "other normalisation":
            test_images = (other.images / 255 - 0.5) / 0.5
        labels = (
            learn.labels[torch.randperm(1000)] if illness == "shuffled labels" else learn.labels
        )
        for _ in range(epochs):
            model.train()
            losses, right = [], 0
            for batch in torch.randperm(1000).split(50):
                logits = model(images[batch])
                loss = F.cross_entropy(logits, labels[batch])
                if illness != "no zero_grad":
                    optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                right += int((logits.argmax(dim=1) == labels[batch]).sum())
            if illness != "no eval":
                model.eval()
            with torch.no_grad():
                answers = [model(test_images).argmax(dim=1) == other.labels for _ in range(3)]
            measured = [answer.float().mean().item() for answer in answers]
            rows.append(
                {"loss": sum(losses) / len(losses), "accuracy": right / 1000, "measured": measured}
            )
    return rows
