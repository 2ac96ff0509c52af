"""Draw the README's picture from the shipped weights: ``python docs/picture.py`` writes ``docs/picture.png``.

A digit that the model was not trained on, what the class token of each of its four heads looks at, and the answer.
White paper under it, so that it reads the same on a dark page; its text is in the README's alt text too.
"""

import sys
from pathlib import Path

import matplotlib

from mnist_vit import attention_weights, load_model
from mnist_vit.attention import to_maps
from mnist_vit.course.drawing import BLUE, SKY, figure, heat, picture
from mnist_vit.data import load_embedded

HERE = Path(__file__).resolve().parent
INDEX = 1503  # a three; the digits are sorted, 500 of each


def draw(path: Path) -> str:
    """Draw the picture, and return what it shows, in words."""
    digits, model = load_embedded(), load_model("vit_mnist").eval()
    images = digits.normalise(digits.images[INDEX : INDEX + 1])
    probabilities = model(images).softmax(dim=1)[0].detach()
    maps = to_maps(attention_weights(model, images, query=0)[0])  # (num_layers, num_heads, n_h, n_w)

    drawn, axes = figure(1, 6, width=12, height=2.5)
    picture(axes[0], digits.images[INDEX], "a digit it has not seen")
    for layer, heads in enumerate(maps):
        for head, one in enumerate(heads):
            place = axes[1 + 2 * layer + head]
            heat(place, one, f"layer {layer}, head {head}", low=float(heads.min()), high=float(heads.max()))
            place.set_axis_off()
    best = int(probabilities.argmax())
    bars = axes[5]
    bars.bar(range(10), probabilities.tolist(), color=[BLUE if i == best else SKY for i in range(10)])
    bars.set(xticks=range(10), yticks=[0, 1], ylim=(0, 1))
    bars.set_title(f"read as {best},\nprobability {probabilities[best]:.3f}")
    bars.set_box_aspect(0.9)
    drawn.savefig(path, dpi=110, metadata={"Software": None})
    return f"digit {INDEX}, a {int(digits.labels[INDEX])}, read as {best} with probability {probabilities[best]:.3f}"


if __name__ == "__main__":
    matplotlib.use("Agg")
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "picture.png"
    print(f"{draw(target)}: {target.name}")
