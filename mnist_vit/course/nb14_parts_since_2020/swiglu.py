"""Exercise: SwiGLU (Shazeer 2020), an MLP one half of which opens and shuts the other."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn  # noqa: F401, one slip takes it

from ..checking import Exercise, Mistake, Slip, fits, gradients, random


def my_swiglu(x, w_gate, w_value, w_out):
    # (..., in_dim); the matrices are (width, in_dim), (width, in_dim), (in_dim, width)
    gate = F.silu(F.linear(x, w_gate))
    value = F.linear(x, w_value)
    return F.linear(gate * value, w_out)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    x = random(2, 3, 5, seed=1).requires_grad_()
    matrices = [random(7, 5, seed=2), random(7, 5, seed=3), random(5, 7, seed=4)]
    out = answer(x, *matrices)
    yield "output", out
    yield from gradients(out, x=x)
    square = [random(4, 4, seed=seed) for seed in (5, 6, 7)]
    yield "output with square matrices", answer(random(2, 4, seed=8), *square)


def notice(answer: Any) -> Mistake | None:
    """What becomes of a single number."""
    gate, value, out = (torch.tensor([[one]]) for one in (1.0, 1.5, 5.0))
    found = f"{float(answer(torch.full((1, 1), 2.0), gate, value, out)):.4g}"
    if found == "26.42":
        return None
    return Mistake(
        f"Of x = 2 with w_gate = 1, w_value = 1.5 and w_out = 5 you make {found}.{_known(answer)}",
        "It should be 26.42: silu(2) = 2 · sigmoid(2) = 1.762 is the gate; times the value, 3;"
        " times 5.",
    )


def more(answer: Any) -> list[str]:
    """What becomes of two numbers, with square matrices: there few mistakes raise."""
    gate = torch.tensor([[1.0, 2.0], [-3.0, 0.5]])
    value = torch.tensor([[2.0, -1.0], [0.3, 4.0]])
    out = torch.tensor([[1.5, 0.7], [-2.0, 3.0]])
    made = answer(torch.tensor([[1.0, 0.6]]), gate, value, out)
    return [f"{one:.3g}" for one in made.flatten().tolist()]


def _known(answer: Any) -> str:
    """What stands between the layers, if it is something that is known."""
    candidates: dict[str, list[float]] = {
        "silu(gate) · silu(gate)": [],
        "silu(value) · value": [],
        "silu(gate) · gate": [],
        "silu(value) · silu(value)": [],
        "silu(value) · silu(gate)": [],
        "silu(value) · gate": [],
        "sigmoid(gate) · sigmoid(value)": [],
        "sigmoid(gate) · value": [],
        "gate · value": [],
        "gate · sigmoid(−gate) · value": [],
        "softplus(gate) · value": [],
        "hardswish(gate) · value": [],
        "elu(gate) · value": [],
        "mish(gate) · value": [],
        "gate · sigmoid(1.702 · gate) · value, which is nearly GELU": [],
        "gate · logsigmoid(gate) · value": [],
        "gate² · sigmoid(gate) · value": [],
        "silu(silu(gate)) · value": [],
        "silu(gate) · value, divided by its own length (its sign, of one number)": [],
        "silu(gate) alone": [],
        "silu(gate) + value": [],
        "silu(gate) - value": [],
    }
    found = []
    for x, w_gate, w_value in ((1.0, 2.0, 3.0), (2.0, -0.7, 1.5), (0.5, 3.0, -4.0)):
        parts = [torch.tensor([[one]]) for one in (x, w_gate, w_value, 1.0)]
        found.append(float(answer(*parts)))
        gate, value = torch.tensor(x * w_gate), torch.tensor(x * w_value)
        values = (
            F.silu(gate) ** 2,
            F.silu(value) * value,
            F.silu(gate) * gate,
            F.silu(value) ** 2,
            F.silu(value) * F.silu(gate),
            F.silu(value) * gate,
            gate.sigmoid() * value.sigmoid(),
            gate.sigmoid() * value,
            gate * value,
            gate * (-gate).sigmoid() * value,
            F.softplus(gate) * value,
            F.hardswish(gate) * value,
            F.elu(gate) * value,
            F.mish(gate) * value,
            gate * (1.702 * gate).sigmoid() * value,
            gate * F.logsigmoid(gate) * value,
            gate * F.silu(gate) * value,
            F.silu(F.silu(gate)) * value,
            (F.silu(gate) * value).sign(),
            F.silu(gate),
            F.silu(gate) + value,
            F.silu(gate) - value,
        )
        for name, one in zip(candidates, values, strict=True):
            candidates[name].append(float(one))
    name = fits(candidates, found)
    return (
        f" That is w_out of {name}, with gate = w_gate · x and value = w_value · x." if name else ""
    )


GATE, VALUE = "F.silu(F.linear(x, w_gate))", "value = F.linear(x, w_value)"
END = "F.linear(gate * value, w_out)"

SLIPS = (
    Slip(
        {GATE: "F.linear(x, w_gate)", VALUE: "value = F.silu(F.linear(x, w_value))"},
        "apply SiLU to w_value's layer and not to w_gate's",
        "SiLU goes over what w_gate gives; what w_value gives stays as it is",
    ),
    Slip(
        {GATE: "F.sigmoid(F.linear(x, w_gate))"},
        "use the sigmoid (that is GLU, Dauphin et al. 2016)",
        "SiLU is x · sigmoid(x)",
    ),
    Slip({GATE: "F.gelu(F.linear(x, w_gate))"}, "use GELU (that is GEGLU)", "Use F.silu"),
    Slip({GATE: "F.relu(F.linear(x, w_gate))"}, "use ReLU (that is ReGLU)", "Use F.silu"),
    Slip(
        {GATE: "F.linear(x, w_gate)"},
        "leave out SiLU",
        ("Without it the gate is linear, too: apply F.silu to what w_gate gives"),
    ),
    Slip(
        {VALUE: "value = F.silu(F.linear(x, w_value))"},
        "apply SiLU to gate and value",
        "The value stays linear",
    ),
    Slip(
        {END: "F.linear(F.silu(gate * value), w_out)", GATE: "F.linear(x, w_gate)"},
        "apply SiLU to the product",
        "It belongs to the gate alone",
    ),
    Slip({END: "F.linear(gate + value, w_out)"}, "add gate and value", "They are multiplied"),
    Slip({END: "F.linear(gate, w_out)"}, "leave out the value", "The gate multiplies it"),
    Slip(
        {VALUE: "value = F.linear(x, w_gate)"},
        "use w_gate twice",
        "The value has a matrix of its own",
    ),
    Slip(
        {END: "F.silu(F.linear(gate * value, w_out))", GATE: "F.linear(x, w_gate)"},
        "apply SiLU at the end",
        "It belongs to the gate alone",
    ),
    Slip(
        {GATE: "F.linear(F.silu(x), w_gate)"},
        "apply SiLU to x before w_gate's layer",
        "It goes over what the gate's layer gives",
    ),
    Slip(
        {GATE: "F.linear(x, w_gate)", VALUE: "value = F.linear(x, w_value).sigmoid()"},
        "multiply the gate's layer by the sigmoid of the value's",
        (
            "SiLU multiplies a number by its own sigmoid: F.silu over what w_gate gives, and what"
            " w_value gives as it is"
        ),
    ),
    Slip(
        {GATE: 'F.gelu(F.linear(x, w_gate), approximate="tanh")'},
        "use GELU, the approximate one (that is GEGLU)",
        "Use F.silu",
    ),
    Slip({GATE: "F.tanh(F.linear(x, w_gate))"}, "use tanh", "SiLU is x · sigmoid(x)"),
    Slip(
        {GATE: "F.softmax(F.linear(x, w_gate), dim=-1)"},
        "use softmax",
        "SiLU goes over each number by itself: x · sigmoid(x)",
    ),
    Slip(
        {
            GATE: "F.silu(x @ w_gate.reshape(x.shape[-1], -1))",
            VALUE: "value = x @ w_value.reshape(x.shape[-1], -1)",
            END: "(gate * value) @ w_out.reshape(-1, x.shape[-1])",
        },
        "reshape the matrices, which mixes up their numbers",
        "Transpose them, w_gate.T, or use F.linear, which does it",
    ),
    Slip(
        {END: "(gate * value) @ w_out.reshape(-1, x.shape[-1])"},
        "reshape w_out, which mixes up its numbers",
        "Transpose it, w_out.T, or use F.linear, which does it",
    ),
    Slip(
        {GATE: "x * F.linear(x, w_gate).sigmoid()"},
        "multiply the tokens x by the sigmoid of w_gate's layer",
        "The x of x · sigmoid(x) is what w_gate gives, both times: F.silu(F.linear(x, w_gate))",
    ),
    Slip(
        {END: "F.linear(gate, w_out) * value"},
        "multiply by the value behind w_out",
        "Gate and value are multiplied first; their product goes through w_out",
    ),
    Slip(
        {END: "F.linear(gate, w_out) * F.linear(value, w_out)"},
        "send gate and value through w_out, each by itself, and multiply then",
        "Gate and value are multiplied first; their product goes through w_out",
    ),
    Slip(
        {
            GATE: "F.silu(x @ w_gate)",
            VALUE: "value = x @ w_value",
            END: "(gate * value) @ w_out",
        },
        "multiply by the matrices as they are",
        "A layer's matrix is (out, in): x @ w_gate.T, or F.linear(x, w_gate)",
    ),
    Slip(
        {GATE: "F.silu(F.linear(x, w_out.T))", END: "F.linear(gate * value, w_gate.T)"},
        "exchange w_gate and w_out",
        "w_gate makes the gate; w_out, (in_dim, width), comes last",
    ),
    Slip(
        {END: "F.linear(F.silu(F.linear(x, w_gate * w_value)), w_out)"},
        "multiply the matrices w_gate and w_value, number by number",
        "Each makes a layer of its own: what the two give is multiplied",
    ),
    Slip(
        {GATE: "nn.SiLU(F.linear(x, w_gate))"},
        "make a module of the class nn.SiLU, and do not call it",
        "F.silu(…) is the function; a module is made first and called then, nn.SiLU()(…)",
    ),
    Slip(
        {END: "F.linear(F.linear(x, F.silu(w_gate) * w_value), w_out)"},
        "apply SiLU to the matrix w_gate",
        "It goes over what the layer gives: F.silu(F.linear(x, w_gate))",
    ),
    Slip({END: "x + F.linear(gate * value, w_out)"}, "add x", "The block does that, not the MLP"),
)

EXERCISE = Exercise(
    answer=my_swiglu,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        "Two linear layers side by side on the same x, then one behind them. Where is SiLU?",
        "gate = F.silu(F.linear(x, w_gate)); it multiplies F.linear(x, w_value); then w_out.",
    ),
    same=({GATE: "F.silu(x @ w_gate.T)", END: "(value * gate) @ w_out.T"},),
)
