"""Learn Vision Transformers by building one: torchvision's, to the last bit, on handwritten digits.

``mnist_vit.train(model)``, ``mnist_vit.evaluate(model)`` and ``mnist_vit.visualize_attention(model)`` take the model
you built and the weights it holds; ``load_model("vit_mnist")`` gives one that has been trained.
"""

from .attention import attention_weights, record_attention
from .model import MLP, Encoder, EncoderBlock, MLPBlock, MultiHeadAttention, VisionTransformer, vit_mnist
from .recipes import evaluate, predict, train, visualize_attention
from .weights import load_model, load_weights, save_weights

__version__ = "1.0.0"

__all__ = ["MLP", "Encoder", "EncoderBlock", "MLPBlock", "MultiHeadAttention", "VisionTransformer", "attention_weights",
           "evaluate", "load_model", "load_weights", "predict", "record_attention", "save_weights", "train",
           "visualize_attention", "vit_mnist"]  # fmt: skip
