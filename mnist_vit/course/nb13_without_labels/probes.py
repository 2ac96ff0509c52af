"""What can be read off an encoder's tokens: logistic regression, nothing else learns."""

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from ...data import ImageData
from .autoencoder import features


def logistic(x: Tensor, labels: Tensor, others: Tensor, truth: Tensor) -> float:
    """Learn from ``x``, (n, numbers), with labels; the accuracy in percent on ``others``."""
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=3000))
    classifier.fit(x.numpy(), labels)
    return round(100 * classifier.score(others.numpy(), truth), 2)


def probe(vit: nn.Module, few: ImageData, judge: ImageData) -> float:
    """Logistic regression on the mean of the patches' tokens: the accuracy in percent."""
    x = features(vit, few.normalise(few.images))
    others = features(vit, judge.normalise(judge.images))
    return logistic(x, few.labels, others, judge.labels)
