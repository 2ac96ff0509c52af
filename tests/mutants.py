# ruff: noqa: E501  (a row of the table is a line)
"""Would the tests notice? Each line of the table changes one line of the package; the tests named must then fail.

    python tests/mutants.py                # the whole round; survivors are listed, and the exit code is their number
    python tests/mutants.py --only 7 12    # these numbers

Each change is made in a copy of the package in a temporary folder, never here. A change marked ``equivalent`` computes
the same, for the reason that is written there, and is expected to survive.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Change:
    """One line of a file of the package, what it becomes, and the tests (``file::test``, in tests/) that must fail."""

    file: str
    old: str
    new: str
    tests: str
    equivalent: str = ""


START, EQUAL = "test_model.py::test_start_values_are_torchvisions", "test_model.py::test_logits_and_every_gradient"
SCRATCH = "test_model.py::test_attention_from_scratch_is test_model.py::test_attention_from_scratch_drops test_model.py::test_attention_from_scratch_takes"
HEAD = "test_model.py::test_get_attention_output"
FAST = "test_fast.py::test_same_logits_and_gradients"
AVERAGED = "test_training.py::test_the_model_ends_with_the_averaged"

MODEL = [
    Change("model.py", "if i < len(hidden_channels) - 1:", "if i < len(hidden_channels):", "test_model.py::test_mlp_is"),
    Change("model.py", "layers.append(norm_layer(width_out))", "pass", "test_model.py::test_mlp_is"),
    Change("model.py", "nn.Linear(width_in, width_out, bias=bias)", "nn.Linear(width_in, width_out)", "test_model.py::test_mlp_is"),
    Change("model.py", "activation_layer=nn.GELU, dropout=dropout)", "activation_layer=partial(nn.GELU, approximate='tanh'), dropout=dropout)", EQUAL),
    Change("model.py", "nn.init.xavier_uniform_(module.weight)", "nn.init.xavier_normal_(module.weight)", START),
    Change("model.py", "nn.init.normal_(module.bias, std=1e-6)", "nn.init.normal_(module.bias, std=1e-5)", START),
    Change("model.py", '("linear_2", "3")', '("linear_2", "2")', "test_model.py::test_weights_of_before"),
    Change("model.py", "(local_metadata.get(\"version\") or 1) < 2", "(local_metadata.get(\"version\") or 2) < 2", "test_model.py::test_weights_of_before"),
    Change("model.py", "nn.init.xavier_uniform_(self.in_proj_weight)", "nn.init.kaiming_uniform_(self.in_proj_weight)", SCRATCH),
    Change("model.py", "(q / math.sqrt(self.head_dim))", "(q / math.sqrt(self.embed_dim))", SCRATCH),
    Change("model.py", "(q / math.sqrt(self.head_dim))", "(q / self.head_dim)", SCRATCH),
    Change("model.py", "weights = scores.softmax(dim=-1)", "weights = scores.softmax(dim=-2)", SCRATCH),
    Change("model.py", "weights = F.dropout(weights, self.dropout, self.training)", "weights = F.dropout(weights, self.dropout)", SCRATCH),
    Change("model.py", "x = (weights @ v).transpose(1, 2)", "x = weights @ v", SCRATCH),
    Change("model.py", "weights.mean(dim=1) if average_attn_weights", "weights.sum(dim=1) if average_attn_weights", SCRATCH),
    Change("model.py", "k = self._split_heads(F.linear(key, w_k, b_k))", "k = self._split_heads(F.linear(query, w_k, b_k))", SCRATCH),
    Change("model.py", "        x = x + input\n", "        x = x + self.ln_1(input)\n", EQUAL),
    Change("model.py", "        y = self.ln_2(x)\n", "        y = x\n", EQUAL),
    Change("model.py", "self.ln_2 = norm_layer(hidden_dim)", "self.ln_2 = self.ln_1", START),
    Change("model.py", "dropout=attention_dropout, batch_first=True)", "dropout=dropout, batch_first=True)", EQUAL),
    Change("model.py", "normal_(std=0.02)", "normal_(std=0.01)", START),
    Change("model.py", "input = input + self.pos_embedding", "input = input + self.pos_embedding[:, :1]", EQUAL),
    Change("model.py", "return self.ln(self.layers(self.dropout(input)))", "return self.layers(self.dropout(input))", EQUAL),
    Change("model.py", "std=math.sqrt(1 / (in_channels * patch_size * patch_size))", "std=math.sqrt(1 / (patch_size * patch_size))", START),
    Change("model.py", "nn.init.zeros_(self.heads.head.weight)", "pass", START),
    Change("model.py", "x = x.permute(0, 2, 1)", "x = x.reshape(n, n_h * n_w, self.hidden_dim)", EQUAL),
    Change("model.py", "x = torch.cat([batch_class_token, x], dim=1)", "x = torch.cat([x, batch_class_token], dim=1)", EQUAL),
    Change("model.py", 'x[:, 1:].mean(dim=1)', 'x.mean(dim=1)', "test_model.py::test_pool_mean"),
    Change("model.py", "x = self.encoder.dropout(x + self.encoder.pos_embedding)", "x = self.encoder.dropout(x)", HEAD),
    Change("model.py", "rows = slice(head * head_dim, (head + 1) * head_dim)", "rows = slice(head, None, num_heads)", HEAD),
    Change("model.py", "x = self.encoder.layers[:layer](x)", "x = self.encoder.layers[: layer + 1](x)", HEAD),
]  # fmt: skip
FASTER = [
    Change("fast.py", "+ encoder.pos_embedding[:, 1:]", "+ encoder.pos_embedding[:, :-1]", FAST),
    Change("fast.py", "x = encoder.dropout(torch.cat([class_token, patches], dim=1))", "x = torch.cat([class_token, patches], dim=1)", "test_fast.py::test_every_dropout"),
    Change("fast.py", "x = x[:, : y.shape[1]] + block.dropout(y)", "x = x[:, : y.shape[1]] + y", "test_fast.py::test_every_dropout"),
    Change("fast.py", "[:, 1:].mean(dim=1)", "[:, :-1].mean(dim=1)", FAST),
    Change("fast.py", "if self.training and self.keep_patches is not None:", "if self.keep_patches is not None:", "test_fast.py::test_evaluation_uses"),
    Change("fast.py", "> 1e-3).float()", "> 9e9).float()", "test_fast.py::test_patches_left_out"),
    Change("fast.py", "dropout if attention.training else 0.0", "dropout", "test_fast.py::test_dropout test_fast.py::test_same_logits"),
    Change("fast.py", "(module._forward_hooks or module._forward_pre_hooks or", "(module._forward_hooks or", "test_fast.py::test_a_changed_model"),
    Change("fast.py", 'x[:, 0], w_q) + b_q', 'x[:, 0], w_q)', FAST),
    Change("fast.py", 'found, w_v)', 'found, w_k)', FAST),
    Change("fast.py", "weights.sum(dim=-1, keepdim=True) * b_v", "b_v", "test_fast.py::test_every_dropout test_fast.py::test_dropout"),
    Change("fast.py", "weights = F.dropout(weights, attention.dropout, attention.training)", "pass", "test_fast.py::test_dropout"),
]  # fmt: skip
LOOKING = [
    Change("attention.py", '"average_attn_weights": False}', '"average_attn_weights": True}', "test_attention.py::test_weights_are"),
    Change("attention.py", "            handle.remove()\n\n\n@", "            pass\n\n\n@", "test_attention.py::test_recording"),
    Change("attention.py", "weights[:, :, query] for weights", "weights[:, :, :, query] for weights", "test_attention.py::test_weights_are"),
    Change("attention.py", "rows[..., 1:].unflatten", "rows[..., :-1].unflatten", "test_attention.py::test_to_maps"),
    Change("attention.py", "mixed = layer + identity", "mixed = layer", "test_attention.py::test_rollout"),
    Change("attention.py", "mixed.sum(dim=-1, keepdim=True)) @ total", "mixed.sum(dim=-2, keepdim=True)) @ total", "test_attention.py::test_rollout"),
    Change("attention.py", "torch.cdist(place, place) * patch_size", "torch.cdist(place, place)", "test_attention.py::test_mean_attention"),
    Change("attention.py", "patches = weights[..., 1:, 1:]", "patches = weights[..., :-1, :-1]", "test_attention.py::test_mean_attention"),
    Change("attention.py", "share = (maps * ink).sum(dim=(-1, -2)) / maps.sum(dim=(-1, -2))", "share = (maps * ink).sum(dim=(-1, -2))", "test_attention.py::test_ink_share"),
    Change("attention.py", "attention.in_proj_weight[2 * width :]", "attention.in_proj_weight[width : 2 * width]", "test_attention.py::test_heads_add"),
    Change("attention.py", "attention.out_proj.weight.T.unflatten", "attention.out_proj.weight.unflatten", "test_attention.py::test_heads_add"),
    Change("attention.py", "low, high = float(layer_maps.min())", "low, high = 0.0", "test_attention.py::test_pictures"),
    Change("gallery.py", "<h2>{html.escape(head)}</h2>", "<h2>{head}</h2>", "test_attention.py::test_pictures"),
    Change("attention.py", 'not images.is_floating_point():', 'False:', "test_bad_input.py::test_mistake_is_answered_by_a_sentence[attention_weights-3]"),
]  # fmt: skip
JUDGING = [
    Change("evaluation.py", "labels.long() * num_classes + predictions", "predictions.long() * num_classes + labels", "test_evaluation.py::test_matrix_is"),
    Change("evaluation.py", "self.matrix.diagonal() / self.matrix.sum(dim=1)", "self.matrix.diagonal() / self.matrix.sum(dim=0)", "test_evaluation.py::test_result"),
    Change("evaluation.py", "len(str(int(self.matrix.max())))", "len(str(int(self.matrix.min())))", "test_evaluation.py::test_large"),
    Change("evaluation.py", "middle = (share + extra / 2)", "middle = (share + extra)", "test_evaluation.py::test_wilson"),
    Change("evaluation.py", "if not logits.isfinite().all():", "if False:", "test_bad_input.py::test_mistake_is_answered_by_a_sentence[evaluate_model-2]"),
    Change("data.py", "(255.0 if", "(256.0 if", "test_data.py::test_loader_normalises"),
    Change("data.py", "a * x + b * y + c for", "a * y + b * x + c for", "test_data.py::test_augment_is"),
    Change("data.py", "images[:, channel] /= std", "images[:, channel] /= std**2", "test_data.py::test_loader_normalises"),
    Change("data.py", "self.seed * 1_000_003 + self.epoch", "self.seed * 1_000_003", "test_data.py::test_order"),
    Change("data.py", "slice(self.rank, None, self.world_size)", "slice(0, None, self.world_size)", "test_data.py::test_processes"),
    Change("data.py", "late = torch.arange(len(digits)) % PER_CLASS >= 400", "late = torch.arange(len(digits)) >= 4000", "test_data.py::test_embedded"),
    Change("data.py", "rest[first] = False", "pass", "test_data.py::test_mnist_splits"),
    Change("data.py", "if path.stat().st_size != size or start != header:", "if path.stat().st_size != size:", "test_data.py::test_damaged"),
    Change("data.py", "math.floor(batches) if self.shuffle", "math.ceil(batches) if self.shuffle", "test_data.py::test_loader_normalises"),
    Change("folders.py", "(i % 10 == 9) == held_out", "(i % 10 == 9)", "test_data.py::test_folder_of_images"),
    Change("folders.py", "pixels // 257 if pixels.max() > 255", "pixels if pixels.max() > 255", "test_image_folder.py::test_every_kind"),
    Change("folders.py", "return ImageOps.exif_transpose(picture)", "return picture", "test_image_folder.py::test_every_kind"),
]  # fmt: skip
LEARNING = [
    Change("training.py", "optimizer.zero_grad()", "pass", "test_training.py::test_resume"),
    Change("training.py", "if step < rise:", "if step > rise:", "test_training.py::test_schedule"),
    Change("training.py", "return 0.5 * (1 + math.cos(", "return 0.5 * (1 - math.cos(", "test_training.py::test_schedule"),
    Change("training.py", "follow(averaged, model, average if scheduler.last_epoch > 1 else 0.0)", "pass", AVERAGED),
    Change("training.py", "average if scheduler.last_epoch > 1 else 0.0)", "average)", AVERAGED),
    Change("training.py", "        old.copy_(new)", "        pass", "test_training.py::test_the_average_is_torchs"),
    Change("training.py", "total += torch.stack([loss.detach() * len(labels),", "total += torch.stack([loss.detach() * loss.item(),", "test_gpu.py"),
    Change("data.py", ".to(images.device, non_blocking=True)", ".to(images.device)", "test_gpu.py"),
    Change("training.py", "model.load_state_dict(averaged.state_dict())", "pass", AVERAGED),
    Change("training.py", 'parameter.dim() < 2 or "class_token" in name', 'parameter.dim() < 2', "test_training.py::test_only_matrices"),
    Change("training.py", "waves = torch.cat([waves[0], waves[1]], dim=-1)", "waves = torch.cat([waves[0], waves[0]], dim=-1)", "test_training.py::test_sincos"),
    Change("training.py", "torch.manual_seed(seed * 1_000_003 + epoch)", "pass", "test_training.py::test_resume"),
    Change("weights.py", "trial.load_state_dict(state, strict=True)", "trial.load_state_dict(state, strict=False)", "test_weights.py::test_damage"),
    Change("recipes.py", "if epoch < 0.75 * epochs else None", "", "test_fast.py::test_the_last_quarter"),
    Change("check/core.py", "    tolerance: float = 1e-6", "    tolerance: float = 1e-1", "test_teaching.py::test_mutant_fails"),
    Change("check/core.py", "    if got.dtype != expected.dtype:", "    if False:", "test_teaching.py::test_a_wrong_kind"),
]  # fmt: skip
CHANGES = [*MODEL, *FASTER, *LOOKING, *JUDGING, *LEARNING]


def copy_course(folder: Path) -> None:
    """What the fast tests need, the package as files of its own."""
    for name in ("mnist_vit", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in ("weights", "notebooks", "attention", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)


def run_tests(folder: Path, tests: str) -> int:
    """pytest's exit code for these tests, in this process."""
    import pytest

    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = str(folder)
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    with open(folder / "output.txt", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        names = []
        for test in tests.split():
            file, _, start = test.partition("::")
            text = (folder / "tests" / file).read_text()
            found = [
                line.split("(")[0].removeprefix("def ") for line in text.splitlines() if line.startswith("def test_")
            ]
            names += [f"tests/{file}::{name}" for name in found if name.startswith(start)] or [f"tests/{test}"]
        options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--tb=line"]
        return int(pytest.main([*options, "--rootdir", str(folder), *names]))


def try_change(change: Change | None, tests: str) -> str:
    """ "caught", "survived", or what else happened. A forked child shares the imports of torch, which take seconds."""
    with tempfile.TemporaryDirectory(prefix="mnist_vit_mutant_") as name:
        folder = Path(name)
        copy_course(folder)
        if change is not None:
            path = folder / "mnist_vit" / change.file
            path.write_text(path.read_text(encoding="utf-8").replace(change.old, change.new), encoding="utf-8")
        context = multiprocessing.get_context("fork")
        child = context.Process(target=lambda: os._exit(run_tests(folder, tests)))
        child.start()
        child.join(timeout=1800)
        if child.is_alive():
            child.kill()
            return "caught (it never ended)"
        if child.exitcode in (0, 1):
            return "caught" if child.exitcode else "survived"
        return f"NOT TRIED: pytest ended with {child.exitcode}: {(folder / 'output.txt').read_text()[-500:]}"


def main() -> int:
    """Try the changes; print a line for each, and at the end what survived."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=int, nargs="+", help="numbers of changes, from 0")
    chosen = parser.parse_args().only or range(len(CHANGES))
    import IPython  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import nbformat  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import torch  # noqa: F401
    import torchvision  # noqa: F401
    from tqdm import tqdm  # noqa: F401

    bad = []
    for number in chosen:
        change, start = CHANGES[number], time.perf_counter()
        result = try_change(change, change.tests)
        expected = result == "survived" if change.equivalent else result.startswith("caught")
        if not expected:
            bad.append(number)
        line = f"{number:3d}  {result:9s} {time.perf_counter() - start:5.0f} s  {change.file}: {change.old.strip()}"
        print(line + (f"  (equivalent: {change.equivalent})" if change.equivalent else ""), flush=True)
    print(f"{len(chosen)} tried; not as expected: {bad or 'none'}")
    return len(bad)


if __name__ == "__main__":
    sys.exit(main())
