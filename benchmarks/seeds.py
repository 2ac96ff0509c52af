"""How much of an accuracy is luck? The recipe of shipped weights once more, with other seeds.

    python -m benchmarks seeds vit_mnist --seeds 1 2  # 50 CPU minutes each

It can be stopped; the same command goes on. It trains as the .json of the weights says, but for the
seed, and reads the test images once, at the end. Validation and test accuracy of every seed, the
shipped one included, are stored under "seeds" in the weights file and its .json; the new weights go
to runs/.
"""

from mnist_vit.files import out_dir
from mnist_vit.jobs import MODELS, evaluate, train
from mnist_vit.weights import find_weights, read_json, update_about

NAMES = list(MODELS)


def run(name: str, seeds: list[int]) -> dict[str, dict[str, float]]:
    """Train and measure each seed, and store it beside the others."""
    about = read_json(name)
    shipped = {part: about["metrics"][part]["accuracy"] for part in ("validation", "test")}
    found = about.get("seeds", {}) | {str(about["seed"]): shipped}
    for seed in seeds:
        found[str(seed)] = one_seed(name, seed)
        update_about(find_weights(name), seeds=dict(sorted(found.items())))
    return found


def one_seed(name: str, seed: int) -> dict[str, float]:
    """Train, or go on with training; return the accuracies."""
    data = "cifar10" if name == "vit_cifar10" else "mnist"
    folder = out_dir("runs") / f"{name}_seed_{seed}"
    weights = folder / "weights.pth"
    resume = (folder / "config.json").exists()
    settings = {"recipe": "shipped", "seed": seed}
    history = train(name, data, run_dir=folder, resume=resume, save=weights, **settings)
    result = evaluate(weights, data, split="test")
    return {
        "validation": round(history[-1]["validation_accuracy"], 5),
        "test": result.accuracy,
    }
