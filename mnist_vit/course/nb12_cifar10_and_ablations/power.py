"""Exercise: how often a rule finds a difference that is there, by simulation."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from ..checking import Exercise, Mistake, Slip, describe


def my_power(rule, effect, seeds, trials):
    # rule(base, variant) -> "better", "worse" or "unclear"; the share of "better", 0 to 1
    found = 0
    for _ in range(trials):
        base = torch.randn(seeds)
        variant = effect + torch.randn(seeds)
        found += rule(base.tolist(), variant.tolist()) == "better"
    return found / trials


def spread_rule(base: list[float], variant: list[float]) -> str:
    difference = sum(variant) / len(variant) - sum(base) / len(base)
    if abs(difference) <= max(max(base) - min(base), max(variant) - min(variant)):
        return "unclear"
    return "better" if difference > 0 else "worse"


def mean_rule(base: list[float], variant: list[float]) -> str:
    return "better" if sum(variant) / len(variant) > sum(base) / len(base) else "worse"


def first_rule(base: list[float], variant: list[float]) -> str:
    return "better" if variant[0] > base[0] + 1 else "unclear"


def last_rule(base: list[float], variant: list[float]) -> str:
    return "better" if variant[-1] > 1 else "unclear"


CASES = (  # rule, effect, seeds, and the share, from 400,000 trials or Φ
    ("the rule of compare_runs", spread_rule, 2.0, 3, 0.449),
    ("the rule of compare_runs", spread_rule, 2.0, 10, 0.027),
    ("a rule that compares the means", mean_rule, 1.0, 3, 0.890),
    ("a rule that compares the means", mean_rule, -1.0, 3, 0.110),
    ("a rule that takes the first runs", first_rule, 0.0, 2, 0.240),
    ("a rule that looks at the variant's last run", last_rule, 0.5, 4, 0.309),
)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    bases = []

    def remember(base: list[float], variant: list[float]) -> str:
        _refuse_other_runs(base, variant)
        bases.append(tuple(map(float, base)))
        return "better" if len(bases) % 2 else "unclear"

    found = _share(answer(remember, 1.0, 3, 7))
    if found is None:
        yield "share", None
        return
    yield "number of experiments with trials=7", len(bases)
    if len(set(bases)) == 1:
        raise Mistake(
            "in all of 7 experiments the base has the same runs.",
            "Draw new ones for every experiment, of the base too, and set no seed in between.",
        )
    if len(set(bases)) < len(bases):
        raise Mistake(
            "in two or more of 7 experiments the base has the same runs.",
            "Draw new ones for every experiment, set no seed in between, and do not round: as"
            " torch.randn gives them, numbers hardly ever come twice.",
        )
    yield "the share where 4 of 7 experiments are better", f"{found:.2f}"
    told = {}
    for name, rule, effect, seeds, share in CASES:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            given = _share(answer(rule, effect, seeds, 3000))
        if given is None:
            yield "share", None
            return
        is_close = abs(given - share) < 0.04
        about = f"{share:.0%}" if is_close else f"{5 * round(20 * given)}%"
        told[f"{name}, with effect {effect:g} and {seeds} seeds"] = f"about {about}"
    yield "the share of better", told


def _refuse_other_runs(base: Any, variant: Any) -> None:
    """Raise Mistake where the rule is given anything but the runs of one experiment."""
    for name, runs in (("base", base), ("variant", variant)):
        shape = tuple(getattr(runs, "shape", ()))
        is_list = isinstance(runs, list | tuple) and not any(
            isinstance(one, list | tuple) for one in runs
        )
        if is_list or len(shape) == 1:
            continue
        found = describe(runs)
        if isinstance(runs, list | tuple):
            found += f", of which number 0 is {describe(runs[0])}"
        raise Mistake(
            f"as the {name}'s runs, rule is given {found}.",
            "rule compares the runs of one experiment: give it two plain lists of seeds numbers,"
            " once in each of the trials.",
        )


def _share(given: Any) -> float | None:
    """What came back, as a number; None where nothing did."""
    if isinstance(given, torch.Tensor) and given.numel() == 1:
        given = given.item()
    if type(given).__module__ == "numpy" and getattr(given, "size", 0) == 1:
        given = given.item()
    if given is None or isinstance(given, int | float):
        return given
    raise Mistake(f"the share must be a number from 0 to 1, but is {type(given).__name__}.")


def notice(answer: Any) -> Mistake | None:
    """What is made of verdicts that are known, and which runs the rule is given."""
    asked: list[int] = []

    def count(base: list[float], variant: list[float]) -> str:
        asked.append(len(base))
        return "better"

    answer(count, 1.0, 3, 40)
    if len(asked) != 40:
        many = "once" if len(asked) == 1 else f"{len(asked)} times"
        runs = f", with {asked[0]} runs of the base" if asked else ""
        return Mistake(
            f"With seeds=3 and trials=40 your code asks the rule {many}{runs}.",
            "It should be asked 40 times, once in each experiment, with 3 runs of each."
            + (
                " Does the loop end at its first turn, by a return in it?"
                if len(asked) == 1
                else ""
            ),
        )
    known = (("better", 1.0), ("worse", 0.0), ("unclear", 0.0))
    for word, right in known:
        try:
            share = _share(answer(lambda base, variant, word=word: word, 1.0, 3, 40))
        except ZeroDivisionError:
            return Mistake(
                f'With a rule that says "{word}" in all of 40 experiments your code divides by 0.',
                "The share is that of all experiments, whatever the rule says: divide by trials.",
            )
        if share is None or abs(share - right) > 1e-6:
            return Mistake(
                f'With a rule that says "{word}" in all of 40 experiments you return {share:g}.',
                f'It should be {right:g}: the number of experiments with "better", divided by the'
                " number of experiments.",
            )
    for other in ("worse", "unclear"):
        words = itertools.cycle(("better", other))
        share = _share(answer(lambda base, variant, words=words: next(words), 1.0, 3, 40))
        if share is None or abs(share - 0.5) > 1e-6:
            return Mistake(
                f'With a rule that says "better" and "{other}" in turn, in 40 experiments, you'
                f" return {share:g}.",
                "It should be 0.5: 20 of 40, whatever the others are.",
            )
    seen: list[tuple[list[float], list[float]]] = []

    def remember(base: list[float], variant: list[float]) -> str:
        seen.append((list(map(float, base)), list(map(float, variant))))
        return "better"

    for effect in (5.0, -5.0):
        seen.clear()
        answer(remember, effect, 4, 2000)
        noticed = _noticed_sets(seen) or _noticed_runs(seen, effect)
        if noticed is not None:
            return noticed
    return None


def _noticed_sets(seen: list[tuple[list[float], list[float]]]) -> Mistake | None:
    """How many experiments there are, and how many runs in each."""
    if len(seen) != 2000:
        return Mistake(
            f"With trials=2000 the rule is asked {len(seen)} times.",
            "Ask it once in each experiment.",
        )
    base, variant = map(len, seen[0])
    if (base, variant) != (4, 4):
        return Mistake(
            f"With seeds=4 the rule is given {base} runs of the base and {variant} of the variant.",
            "It should be given 4 of each, as many as seeds says.",
        )
    return None


def _noticed_runs(seen: list[tuple[list[float], list[float]]], effect: float) -> Mistake | None:
    """How the runs are distributed: four runs of each, 2000 times."""
    base = torch.tensor([one for one, _ in seen])
    variant = torch.tensor([other for _, other in seen])
    if bool((variant.std(dim=0) < 1e-6).all()):
        return Mistake(
            "The variant has the same runs in all experiments.",
            "Draw new ones for every experiment, of the variant too.",
        )
    for name, runs in (("base", base), ("variant", variant)):
        if bool((runs.std(dim=1) < 1e-6).all()):
            return Mistake(
                f"All runs of the {name} in one experiment are the same number.",
                "Each seed has luck of its own: torch.randn(seeds).",
            )
    if bool(((variant - base).std(dim=1) < 1e-4).all()):
        return Mistake(
            "In one experiment, each run of the variant is a run of the base plus the same number.",
            "The variant's luck is its own: draw anew, and add the effect.",
        )
    for name, runs in (("base", base), ("variant", variant)):
        begin, end = float(runs[:200].mean()), float(runs[-200:].mean())
        if abs(begin - end) > 1:
            return Mistake(
                f"In the first 200 of 2000 experiments the {name}'s runs are {begin:.1f} on"
                f" average, in the last 200 {end:.1f}.",
                "All experiments are alike: draw standard normal numbers each time, and add effect"
                " once to those of the variant.",
            )
        each = runs.mean(dim=0)
        if float(each.max() - each.min()) > 1:
            averages = ", ".join(f"{round(one, 1) + 0.0:g}" for one in each.tolist())
            return Mistake(
                f"With effect={effect:g}, the four runs of the {name} are {averages} on average.",
                "All runs of a set are drawn alike, torch.randn(seeds), and stay in the order in"
                " which they come; effect is added to every run of the variant.",
            )
    means = round(float(base.mean()), 1) + 0.0, round(float(variant.mean()), 1) + 0.0
    if told := _beside(means, (0.0, effect), 0.2):
        return Mistake(
            f"With effect={effect:g} the runs that the rule is given first, as the base's, are"
            f" {told[0]} on average, those that it is given second, as the variant's, {told[1]}.",
            f"The base's should be 0 on average, and the variant's {effect:g}: standard normal"
            " numbers, and others plus effect.",
        )
    spreads = float(base.std()), float(variant.std())
    if told := _beside(spreads, (1.0, 1.0), 0.1):
        return Mistake(
            f"The standard deviation of the base's runs is {told[0]}, that of the variant's"
            f" {told[1]}.",
            "Both should be 1: torch.randn draws such numbers, and effect is one number for all"
            " runs.",
        )
    return None


def _beside(
    found: tuple[float, float], right: tuple[float, float], near: float
) -> tuple[str, str] | None:
    """Two numbers in words, of which one that is right is called so; None if both are."""
    are_right = [abs(own - ours) <= near for own, ours in zip(found, right, strict=True)]
    if all(are_right):
        return None
    first, second = (
        f"{round(own, 1) + 0.0:g}{' (which is right)' if is_right else ''}"
        for own, is_right in zip(found, are_right, strict=True)
    )
    return first, second


def more(answer: Any) -> list:
    """What is made of known verdicts, and roughly which runs the rule is given."""
    seen: list = []
    for words in (("better",), ("worse",), ("unclear",), ("better", "worse", "unclear")):
        said = itertools.cycle(words)
        share = _share(answer(lambda base, variant, said=said: next(said), 1.0, 3, 42))
        seen.append(None if share is None else round(share, 4))
    for effect, seeds in ((4.0, 4), (-3.0, 2)):
        given: list[tuple[list[float], list[float]]] = []

        def remember(base: list[float], variant: list[float], given: Any = given) -> str:
            given.append((list(map(float, base)), list(map(float, variant))))
            return "better"

        answer(remember, effect, seeds, 1500)
        seen.append(len(given))
        base = torch.tensor([one for one, _ in given])
        variant = torch.tensor([other for _, other in given])
        for runs in (base, variant):
            # rounded so that other draws give the same
            seen += [runs.shape[1], round(2 * float(runs.mean())), round(2 * float(runs.std()))]
        first = torch.stack([base[:, 0], variant[:, 0]])
        seen.append(round(2 * float(first.corrcoef()[0, 1])))
    return seen


BASE, VARIANT = "base = torch.randn(seeds)", "effect + torch.randn(seeds)"

SLIPS = (
    Slip({'== "better"': '!= "unclear"'}, 'count "worse" too', 'Only "better" is counted'),
    Slip(
        {VARIANT: "effect + base"},
        "give the variant the base's runs and add the effect",
        "The luck of its seeds is its own, so draw anew",
    ),
    Slip(
        {VARIANT: "torch.randn(seeds)"},
        "forget the effect",
        "It is what the rule is to find: add it to every run of the variant",
    ),
    Slip(
        {VARIANT: "torch.randn(seeds) - effect"},
        "subtract the effect from the variant's runs",
        "The variant is better by the effect: add it to the variant's runs",
    ),
    Slip(
        {BASE: "base = torch.rand(seeds)", VARIANT: "effect + torch.rand(seeds)"},
        "draw with rand",
        "Its numbers lie between 0 and 1, and spread less. Normal numbers come from randn",
    ),
    Slip(
        {VARIANT: "effect * torch.randn(seeds)"},
        "multiply by the effect",
        "Add it to every run of the variant",
    ),
    Slip(
        {BASE: "base = torch.randn(3)", VARIANT: "effect + torch.randn(3)"},
        "draw 3 runs always",
        "There are as many as seeds says",
    ),
    Slip(
        {"found / trials": "100 * found / trials"}, "give percent", "A share lies between 0 and 1"
    ),
    Slip(
        {"range(trials)": "range(1000)", "found / trials": "found / 1000"},
        "make 1000 experiments whatever trials is",
        "There are as many as trials says",
    ),
    Slip(
        {"found / trials": "found"},
        "return how many are found",
        "A share is wanted: divide the count by trials",
    ),
    Slip(
        {BASE: "base = torch.randn(seeds) + effect", VARIANT: "torch.randn(seeds)"},
        "add the effect to the base, or give the rule its two lists the wrong way round",
        "The rule is given the base first, and it is the variant that is better by the effect",
    ),
    Slip(
        {'== "better"': '== "unclear"'},
        'count "unclear" in place of "better"',
        'The share of "better" is wanted',
    ),
    Slip(
        {VARIANT: "effect + torch.randn(seeds - 1)"},
        "draw one run too few of the variant",
        "Draw as many runs of the variant as of the base: the number that seeds gives",
    ),
    Slip(
        {VARIANT: "effect * torch.rand(seeds) + torch.randn(seeds)"},
        "give each run an effect of its own",
        "effect is one number, the same for every run of the variant",
    ),
)

EXERCISE = Exercise(
    answer=my_power,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        (
            "Make one experiment up, many times: seeds runs of the base, seeds runs of a variant"
            " that is really better. What does the rule say?"
        ),
        (
            "torch.randn(seeds) are runs of the base, in standard deviations from its mean; effect"
            " + torch.randn(seeds) are runs of the variant. Count how often rule(base.tolist(),"
            " variant.tolist()) is 'better'."
        ),
    ),
    same=({VARIANT: "torch.randn(seeds) + effect"},),
    many=True,
)
