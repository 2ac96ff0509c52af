"""Solutions of notebook 07, made from the sources of its checks by `python -m tools solutions`."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from mnist_vit.course.nb07_training.cosine_schedule import my_cosine_schedule as cosine_schedule
from mnist_vit.course.nb07_training.training_step import my_training_step as training_step
from mnist_vit.course.nb07_training.weight_average import my_weight_average as weight_average
from mnist_vit.training import accuracy_and_loss, make_optimizer


# exercise: cosine_schedule
def my_cosine_schedule(step: int, steps: int, warmup: int) -> float:
    """The share of the largest learning rate at a step."""
    if step < warmup:
        return (step + 1) / warmup
    # the angle is 0 at the end of the warm-up, π at the very end
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


# exercise: cross_entropy
def my_cross_entropy(logits, labels):
    """(n, classes) and n whole numbers -> one number, in nats."""
    log_probabilities = logits.log_softmax(dim=-1)
    rows = torch.arange(len(labels))
    picked = log_probabilities[rows, labels]  # row i, column labels[i]
    return -picked.mean()


# exercise: diagnose
def my_diagnose() -> dict[str, str]:
    """The illness of each curve, by its letter."""
    return {
        # the training is healthy, what is measured is wrong, always in the same way
        "A": "other normalisation",
        "B": "shuffled labels",  # learns a little by heart, and nothing that helps elsewhere
        "C": "no zero_grad",  # learns, and then runs along old gradients
        "D": "no eval",  # the same weights give three answers
    }


# exercise: load
def my_load(kind, path):
    # a class, a file with {"sizes": …, "weights": …} -> a model of that class, in eval mode
    content = torch.load(path, weights_only=True)
    model = kind(**content["sizes"])
    model.load_state_dict(content["weights"])
    return model.eval()


# exercise: training_loop
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


# exercise: training_step
def my_training_step(model, optimizer, images, labels):
    """One step on one batch, in place; returns the loss of the batch, measured before the weights
    change."""
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


# exercise: weight_average
def my_weight_average(averaged, model, average):
    """Change the weights of averaged, in place: they keep the share average, the rest comes from
    model."""
    with torch.no_grad():
        for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
            old.lerp_(new, 1 - average)
