"""Exercise: how much of the class token's attention goes to registers, and to blank patches."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Evidence, Exercise, Mistake, Slip, describe, random


def my_shares(weights, is_blank):
    # (n, num_layers, num_heads, seq_length, seq_length), (n, num_patches) -> (n,), (n,)
    count = is_blank.shape[1]
    row = weights[:, -1, :, 0].mean(dim=1)
    on_registers = row[:, 1:-count].sum(dim=1)
    on_blank = (row[:, -count:] * is_blank).sum(dim=1)
    return on_registers, on_blank


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Four registers, then none; a picture without blank patches, and one with nothing else."""
    for registers, count, layers, seed in ((4, 6, 3, 1), (0, 9, 2, 3)):
        length = 1 + registers + count
        weights = (2 * random(5, layers, 2, length, length, seed=seed)).softmax(dim=-1)
        is_blank = random(5, count, seed=seed + 1) > 0
        is_blank[0] = False
        is_blank[1] = True
        told = f" ({registers} registers)"
        made = answer(weights, is_blank)
        if made is None:
            yield "share on registers" + told, None
            return
        is_stacked = isinstance(made, Tensor) and made.shape == (2, len(weights))
        if not is_stacked and (not isinstance(made, tuple | list) or len(made) != 2):
            raise Mistake(
                "two results are needed, the share on registers and the share on blank patches,"
                f" and this is {describe(made)}."
            )
        on_registers, on_blank = made
        yield "share on registers" + told, on_registers
        yield "share on blank patches" + told, on_blank


def notice(answer: Any) -> Mistake | None:
    """What is made of weights that are known: of one head, of two, of two layers, two pictures."""
    one = torch.tensor([0.05, 0.2, 0.1, 0.3, 0.15, 0.2])
    weights = torch.full((1, 2, 1, 6, 6), 1 / 6)
    weights[0, 1, 0, 0] = one
    weights[0, 0, 0, 0] = torch.tensor([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    is_blank = torch.tensor([[False, True, True]])
    found = _listed(answer(weights, is_blank), 0)
    if found != "0.3 and 0.35":
        first = " Those are the shares in the first layer." if found == "0.2 and 0.2" else ""
        return Mistake(
            "In the last of two layers, with one head, the class token gives 0.05 to itself, 0.2"
            " and 0.1 to two registers, and 0.3, 0.15 and 0.2 to three patches, the last two of"
            f" them blank. You return {_marked(found, '0.3 and 0.35')}.{first}",
            "It should be 0.3 and 0.35: 0.2 + 0.1, and 0.15 + 0.2.",
        )
    flat = torch.full_like(weights, 1 / 6)
    found = _listed(answer(torch.cat([weights, flat], dim=2), is_blank), 0)
    if found != "0.3167 and 0.3417":
        return Mistake(
            "With one head in the last layer, in which the class token gives 0.3 to the registers"
            " and 0.35 to blank patches, yours is right. With a second head, in which it gives 1/6"
            f" to each of the six tokens, you return {_marked(found, '0.3167 and 0.3417')}.",
            "It should be 0.3167 and 0.3417, the means over the heads.",
        )
    both = torch.cat([flat, weights])
    found = _listed(answer(both, torch.tensor([[True, True, True], [False, True, True]])), 1)
    if found != "0.3 and 0.35":
        return Mistake(
            "Alone, a picture with the shares 0.3 and 0.35 is right in yours. Behind another"
            f" picture, it gets {_marked(found, '0.3 and 0.35')}.",
            "Each picture has its own shares: add up over the tokens, not over the pictures.",
        )
    found = _listed(answer(weights, torch.zeros(1, 3, dtype=torch.bool)), 0)
    if found != "0.3 and 0":
        return Mistake(
            "With shares of 0.3 and 0.35 yours is right. If no patch is blank you return"
            f" {_marked(found, '0.3 and 0')}.",
            "It should be 0.3 and 0: on blank patches nothing is added up.",
        )
    found = _listed(answer(weights, torch.ones(1, 5, dtype=torch.bool)), 0)
    if found != "0 and 0.95":
        return Mistake(
            "If all five tokens behind the class token are blank patches, and none a register, and"
            f" it gives them 0.95 in all, you return {_marked(found, '0 and 0.95')}.",
            "It should be 0 and 0.95: there may be no registers.",
        )
    return None


def tell(evidence: Evidence) -> tuple[str, str]:
    """What becomes of a sum of nothing."""
    if "(0 registers)" not in evidence.what or isinstance(evidence.value, Tensor):
        return "", ""
    return (
        "Without registers what you return is no tensor: Python's sum of nothing is the number 0.",
        "A share for each picture is asked for, 0 in all of them: row[:, 1:-num_patches].sum(dim=1)"
        " gives it.",
    )


def _listed(made: Any, picture: int) -> str:
    """The two shares of a picture."""
    first, second = (round(float(share[picture]), 4) + 0.0 for share in made)
    return f"{first:g} and {second:g}"


def _marked(found: str, right: str) -> str:
    """The two shares, of which one that is right is called so."""
    pairs = zip(found.split(" and "), right.split(" and "), strict=True)
    first, second = (f"{own}{' (which is right)' if own == ours else ''}" for own, ours in pairs)
    return f"{first} and {second}"


ROW = "weights[:, -1, :, 0].mean(dim=1)"
REGISTERS, BLANK = "row[:, 1:-count].sum(dim=1)", "(row[:, -count:] * is_blank).sum(dim=1)"
END = "return on_registers, on_blank"

SLIPS = (
    Slip(
        {ROW: "weights[:, -1, :, :, 0].mean(dim=1)"},
        "take the column, how much each token looks at the class token",
        "Who looks is the first of the two last axes, at whom the last: weights[:, -1, :, 0]",
    ),
    Slip(
        {ROW: "weights[:, 0, :, 0].mean(dim=1)"},
        "take the first layer",
        "The last one is asked for: -1",
    ),
    Slip(
        {ROW: "weights[:, :, :, 0].mean(dim=(1, 2))"},
        "take the mean over all layers",
        "The last layer alone is asked for: -1",
    ),
    Slip(
        {ROW: "weights[:, -1, 0, 0]"},
        "take the first head alone",
        "It is the mean over the heads",
    ),
    Slip(
        {ROW: "100 * weights[:, -1, :, 0].mean(dim=1)"},
        "give percent",
        "Shares from 0 to 1 are asked for",
    ),
    Slip(
        {ROW: "weights[:, -1, :, 0].median(dim=1).values"},
        "take the median of the heads",
        "It is the mean over the heads",
    ),
    Slip(
        {ROW: "weights[:, -1, :, 0].sum(dim=1)"},
        "add the heads up",
        "Take their mean: then all shares of a picture add up to 1",
    ),
    Slip(
        {ROW: "weights[:, -1].mean(dim=(1, 2))"},
        "take the mean over all tokens that look",
        "The class token alone is asked for, token 0",
    ),
    Slip(
        {REGISTERS: "row[:, :-count].sum(dim=1)"},
        "count the class token's attention on itself as that on registers",
        "The registers begin behind the class token, at token 1",
    ),
    Slip(
        {REGISTERS: "row[:, -4:].sum(dim=1)"},
        "take the last four tokens for the registers",
        "The patches are the last tokens; the registers stand between class token and patches",
    ),
    Slip(
        {REGISTERS: "row[:, 1:5].sum(dim=1)"},
        "count four registers, whatever the sizes say",
        "There are as many as are left between the class token and the patches, perhaps none",
    ),
    Slip(
        {REGISTERS: "row[:, 1:-count].mean(dim=1)"},
        "take the mean of the registers",
        "The share of all of them together is asked for: their sum",
    ),
    Slip(
        {REGISTERS: "row[:, 1:-count].sum(dim=1) / max(1, row.shape[1] - 1 - count)"},
        "take the mean of the registers, and 0 where there are none",
        "The share of all of them together is asked for: their sum",
    ),
    Slip(
        {BLANK: "(row[:, -count:] * is_blank).mean(dim=1)"},
        "take the mean over the patches",
        "The share of all blank patches together is asked for: their sum",
    ),
    Slip(
        {BLANK: "(row[:, -count:] * is_blank).sum(dim=1) / row[:, -count:].sum(dim=1)"},
        "divide by the attention on all patches",
        "A share of all of the class token's attention is asked for, as it is",
    ),
    Slip(
        {BLANK: "(row[:, -count:] * is_blank).sum(dim=1) / is_blank.sum(dim=1)"},
        "divide by the number of blank patches",
        "The share of all blank patches together is asked for, as it is",
    ),
    Slip(
        {BLANK: ("(row[:, -count:] * is_blank).sum(dim=1) / is_blank.sum(dim=1).clamp(min=1)")},
        "divide by the number of blank patches, where there are any",
        "The share of all blank patches together is asked for, as it is",
    ),
    Slip(
        {BLANK: "(row[:, 1 : count + 1] * is_blank).sum(dim=1)"},
        "take the first num_patches tokens behind the class token for the patches",
        "Registers may stand there; the patches are the last tokens",
    ),
    Slip(
        {
            REGISTERS: "row[:, 1:-count].sum(dim=1) / max(1, row.shape[1] - 1 - count)",
            BLANK: "(row[:, -count:] * is_blank).sum(dim=1) / is_blank.sum(dim=1).clamp(min=1)",
        },
        "take what an average register and an average blank patch get",
        "What all of them get together is asked for: the sums, undivided",
    ),
    Slip(
        {
            REGISTERS: "row[:, 1 + count :].sum(dim=1)",
            BLANK: "(row[:, 1 : count + 1] * is_blank).sum(dim=1)",
        },
        "look for the patches directly behind the class token, and for the registers at the end",
        "The registers come first: class token, registers, patches",
    ),
    Slip(
        {BLANK: "(row[:, :count] * is_blank).sum(dim=1)"},
        "take the first num_patches tokens for the patches, the class token too",
        "The patches are the last tokens",
    ),
    Slip(
        {REGISTERS: "row[:, 1 : row.shape[1] - count + 1].sum(dim=1)"},
        "count the first patch as a register",
        "The registers end where the patches begin: row[:, 1:-num_patches]",
    ),
    Slip(
        {ROW: f"{ROW}\n    row = row / row[:, 1:].sum(dim=1, keepdim=True)"},
        "divide by all attention but that of the class token on itself",
        "Shares of all of the class token's attention are asked for, as they are",
    ),
    Slip(
        {ROW: "weights[:, -1, :, 0].amax(dim=1)"},
        "take the largest head at each token",
        "It is the mean over the heads",
    ),
    Slip(
        {ROW: "weights[:, :, -1, 0].mean(dim=1)"},
        "take the last head, and the mean over the layers",
        "Axis 1 are the layers, axis 2 the heads: the last layer, the mean over its heads",
    ),
    Slip(
        {ROW: "weights[:, -1].softmax(dim=-1)[:, :, 0].mean(dim=1)"},
        "take a softmax of the weights",
        "They come out of one: leave them as they are",
    ),
    Slip(
        {ROW: "weights[:, -1, :, -1].mean(dim=1)"},
        "take the row of the last token",
        "The class token is the first: weights[:, -1, :, 0]",
    ),
    Slip(
        {REGISTERS: "1 - (row[:, -count:] * is_blank).sum(dim=1)"},
        "take all that is not on blank patches for the registers",
        "The class token and the other patches get some, too: add up over the registers",
    ),
    Slip(
        {BLANK: "(row[:, -count:] * ~is_blank).sum(dim=1)"},
        "take the patches that are not blank",
        "is_blank is True where a patch is blank",
    ),
    Slip(
        {BLANK: "row[:, -count:].sum(dim=1)"},
        "take all patches",
        "Only those count where is_blank is True",
    ),
    *(
        Slip(
            {BLANK: total},
            "add up the blank patches of all pictures",
            "Each picture has its own share, and [is_blank] leaves no axis of the pictures:"
            " multiply by is_blank, and sum over dim=1",
        )
        for total in (
            "row[:, -count:][is_blank].sum()",
            "row[:, -count:][is_blank].sum().expand(len(row))",
        )
    ),
    Slip(
        {END: "return on_blank, on_registers"},
        "return the two in the other order",
        "First the share on registers, then that on blank patches",
    ),
)

EXERCISE = Exercise(
    answer=my_shares,
    compare=compare,
    stars=1,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    hints=(
        (
            "Which of the five axes is the layer, which the head, which the token that looks, which"
            " the token looked at? And where in the sequence are the registers, where the patches?"
        ),
        (
            "row = weights[:, -1, :, 0].mean(dim=1) has a number for each token looked at. The last"
            " is_blank.shape[1] of them are patches; the registers are those between token 0 and"
            " the patches. Add up, over dim=1."
        ),
    ),
    same=(
        {BLANK: "row[:, -count:].masked_fill(~is_blank, 0.0).sum(dim=-1)"},
        {ROW: "weights.mean(dim=2)[:, -1, 0, :]"},
        {REGISTERS: "row[:, 1 : row.shape[1] - count].sum(dim=1)"},
    ),
)
