"""How much of an accuracy is luck? The recipe of shipped weights once more, with other seeds.

    python -m benchmarks seeds vit_mnist --seeds 1 2  # 50 CPU minutes each; can be stopped, the same
    command goes on

Trains as the .json of the weights says, but for the seed, and reads the test images once, at the
end. Validation and test accuracy of every seed, the shipped one included, are stored under "seeds"
in the weights file and its .json; the new weights go to runs/.
"""

import argparse

import torch

from mnist_vit.files import out_dir
from mnist_vit.jobs import MODELS, evaluate, train
from mnist_vit.weights import find_weights, read_json, update_about


def main(arguments: list[str] | None = None) -> None:
    """Train and measure each seed, and store it beside the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=MODELS, help="shipped weights")
    parser.add_argument("seeds", type=int, nargs="+", help="seeds to add")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    about = read_json(options.name)
    data = "cifar10" if options.name == "vit_cifar10" else "mnist"
    reached = {part: about["metrics"][part]["accuracy"] for part in ("validation", "test")}
    seeds = about.get("seeds", {}) | {str(about["seed"]): reached}
    for seed in options.seeds:
        folder = out_dir("runs") / f"{options.name}_seed_{seed}"
        recipe = about["recipe"] | {"seed": seed}
        resume = (folder / "config.json").exists()
        history = train(
            options.name, data, run_dir=folder, resume=resume, save=folder / "weights.pth", **recipe
        )
        result = evaluate(folder / "weights.pth", data, split="test")
        seeds[str(seed)] = {
            "validation": round(history[-1]["validation_accuracy"], 5),
            "test": result.accuracy,
        }
        about["seeds"] = dict(sorted(seeds.items()))
        path = update_about(find_weights(options.name), seeds=about["seeds"])
        print(f"seed {seed}: {seeds[str(seed)]}, stored in {path}")


if __name__ == "__main__":
    main()
