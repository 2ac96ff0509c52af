"""What a person does with the page, in headless Chromium: ``pytest -m browser``; screenshots as in
test_browser."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from helpers import ROOT, randomise, square_maps
from PIL import Image
from test_browser import shot
from test_explorer import headless_page
from test_explorer_model import near, random_model, without, zero_heads

from mnist_vit import VisionTransformer, load_model
from mnist_vit.attention import attention_weights, rollout
from mnist_vit.data import load_embedded
from mnist_vit.datasets import MNIST_MEAN, MNIST_STD
from mnist_vit.evaluation import evaluate_model
from mnist_vit.explorer import Page, write_page
from mnist_vit.pictures import digit_to_tensor, open_picture, picture_to_tensor
from mnist_vit.relevance import relevance

pytestmark = pytest.mark.browser
DONE = "() => task.jobs.length > 0 && task.answers.filter(Boolean).length === task.jobs.length"
MNIST = {
    "classes": tuple("0123456789"),
    "mean": (MNIST_MEAN,),
    "std": (MNIST_STD,),
    "digits": True,
}


def digits_page(
    path: Path, name: str = "vit_mnist_p7", count: int = 20, matrix: bool = True
) -> Page:
    """A page of digits, and the confusion matrix of all of them."""
    model, digits = load_model(name), load_embedded()
    some = digits.select(torch.arange(0, 5000, 5000 // count), "some digits")
    images = some.normalise(some.images)
    found = (
        evaluate_model(model, [(images, some.labels)], some.classes, some.name) if matrix else None
    )
    names = [f"{label}_{i}" for i, label in enumerate(some.labels.tolist())]
    title = {"title": f"Inside {name}", "text": some.name}
    return write_page(
        path, model, images, some.images, names, some.labels.tolist(), found, **title, **MNIST
    )


@pytest.fixture
def opened(page: Any, tmp_path: Path) -> Callable[..., Any]:
    """Opens a page from the disk; what goes wrong in it fails the test, and so does any request
    that leaves it."""
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type in ("error", "warning") else None
        ),
    )

    def open_page(path: Path | None = None, **what: Any) -> Any:
        page.goto((path or digits_page(tmp_path / "page.html", **what)).resolve().as_uri())
        page.wait_for_function("() => now !== null")
        return page

    yield open_page
    assert not wrong, wrong
    assert page.outside == []


def after(tab: Any, action: Callable[[], Any]) -> Any:
    """What the page has computed after an action that changes something: its logits."""
    tab.evaluate("now.old = true")
    action()
    tab.wait_for_function("() => !now.old")
    return torch.tensor(tab.evaluate("[...now.logits]"))


def text_of(tab: Any, selector: str) -> str:
    return tab.locator(selector).inner_text()


def patch_at(tab: Any, row: int, column: int, element: str = "#picture") -> tuple[float, float]:
    """Where the middle of a patch is on the screen."""
    tab.locator(element).first.scroll_into_view_if_needed()
    box = tab.locator(element).first.bounding_box()
    rows, columns = tab.evaluate("page.grid")
    return (
        box["x"] + box["width"] * (column + 0.5) / columns,
        box["y"] + box["height"] * (row + 0.5) / rows,
    )


def shown_image(tab: Any, model: torch.nn.Module) -> torch.Tensor:
    """What the page gives its model, (1, c, h, w)."""
    channels, size = model.conv_proj.in_channels, model.image_size
    pixels = torch.tensor(tab.evaluate("[...shown]"), dtype=torch.float32).view(
        1, channels, size, size
    )
    mean, std = (
        torch.tensor(tab.evaluate(f"page.{name}")).view(1, -1, 1, 1) for name in ("mean", "std")
    )
    return (pixels / 255 - mean) / std


def test_everything_that_can_be_changed_gives_pytorchs_logits(opened: Callable[..., Any]) -> None:
    tab, model = opened(), load_model("vit_mnist_p7")
    first = shown_image(tab, model)
    assert near(torch.tensor(tab.evaluate("[...now.logits]")), model(first)[0].detach())

    with torch.no_grad():  # a head, a layer
        logits = after(tab, lambda: tab.get_by_label("head 1").first.uncheck())
        assert near(logits, zero_heads(load_model("vit_mnist_p7"), [(0, 1)])(first)[0])
        assert "Without the changes" in tab.locator("#verdict").inner_text()
        after(tab, lambda: tab.locator("#undo").click())
        assert tab.get_by_label("head 1").first.is_checked()
        logits = after(tab, lambda: tab.get_by_label("layer 1", exact=True).uncheck())
        assert near(logits, without(model, first, list(range(17)), (1,))[0])
        logits = after(tab, lambda: tab.locator("#reset").click())
        assert near(logits, model(first)[0])

        tab.get_by_role("radio", name="remove", exact=True).click()  # patches, by a drag over three
        tab.mouse.move(*patch_at(tab, 1, 0))
        tab.mouse.down()
        tab.mouse.move(*patch_at(tab, 1, 1))
        logits = after(tab, lambda: tab.mouse.move(*patch_at(tab, 1, 2)))
        tab.mouse.up()
        left = [t for t in range(17) if t not in (5, 6, 7)]
        assert tab.evaluate("now.tokens") == left
        assert near(logits, without(model, first, left)[0])
        shot(tab, "explorer_removed")
        after(tab, lambda: tab.locator("#undo").click())
        assert tab.evaluate("now.tokens.length") == 17

        tab.get_by_role("radio", name="move", exact=True).click()
        tab.mouse.move(*patch_at(tab, 0, 1))
        tab.mouse.down()
        tab.mouse.move(*patch_at(tab, 2, 2))
        logits = after(tab, tab.mouse.up)
        moved = first.clone()
        moved[..., :7, 7:14], moved[..., 14:21, 14:21] = (
            first[..., 14:21, 14:21],
            first[..., :7, 7:14],
        )
        assert torch.equal(shown_image(tab, model), moved)
        assert near(logits, model(moved)[0])
        assert near(torch.tensor(tab.evaluate("[...untouched]")), model(first)[0])


def test_drawing_with_the_mouse_a_finger_and_keys(opened: Callable[..., Any], page: Any) -> None:
    tab, model = opened(), load_model("vit_mnist_p7")
    after(tab, lambda: tab.locator("#blank").click())
    assert tab.evaluate("Math.max(...shown)") == 0
    tab.mouse.move(*patch_at(tab, 0, 2))
    tab.mouse.down()
    logits = after(tab, lambda: tab.mouse.move(*patch_at(tab, 3, 1), steps=8))
    tab.mouse.up()
    tab.wait_for_timeout(300)
    inked = tab.evaluate("shown.filter(value => value > 128).length")
    assert 40 < inked < 120, "a line of ink three pixels wide"
    logits = torch.tensor(tab.evaluate("[...now.logits]"))
    assert near(logits, model(shown_image(tab, model))[0].detach())
    after(tab, lambda: tab.locator("#undo").click())
    assert tab.evaluate("Math.max(...shown)") == 0, "one stroke is one step"

    tab.locator("#picture").focus()
    tab.keyboard.press("Space")
    for _ in range(9):
        tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Space")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_timeout(300)
    column = tab.evaluate(
        "Array.from({length: 28}, (_, y) => Math.max(...shown.slice(28 * y, 28 * y + 3)))"
    )
    assert sum(value > 128 for value in column) in range(9, 13), "the pen was down for nine pixels"
    tab.get_by_role("radio", name="erase", exact=True).click()
    tab.mouse.move(*patch_at(tab, 0, 0))
    tab.mouse.down()
    after(tab, lambda: tab.mouse.move(*patch_at(tab, 1, 0), steps=5))
    tab.mouse.up()
    assert (
        tab.evaluate("shown.filter(value => value > 128).length")
        < sum(value > 128 for value in column) * 3
    )

    client = page.context.new_cdp_session(page)  # a finger
    tab.get_by_role("radio", name="draw", exact=True).click()
    x, y = patch_at(tab, 2, 2)
    before = tab.evaluate("shown.reduce((sum, value) => sum + value, 0)")
    client.send(
        "Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]}
    )
    client.send(
        "Input.dispatchTouchEvent",
        {"type": "touchMove", "touchPoints": [{"x": x + 60, "y": y + 20}]},
    )
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    tab.wait_for_timeout(300)
    assert tab.evaluate("shown.reduce((sum, value) => sum + value, 0)") > before + 1000


def test_any_patch_is_the_query_by_mouse_and_by_keys(opened: Callable[..., Any]) -> None:
    tab, model = opened(), load_model("vit_mnist_p7")
    weights = attention_weights(model, shown_image(tab, model))[0]

    def maps() -> torch.Tensor:
        return torch.tensor(
            tab.evaluate("heads.map(layer => layer.map(map => [...map.values]))")
        ).view(2, 2, 4, 4)

    assert near(maps(), square_maps(weights[..., 0, :]), 2e-6)
    tab.get_by_role("radio", name="look", exact=True).click()
    tab.mouse.move(*patch_at(tab, 2, 1))
    assert near(maps(), square_maps(weights[..., 1 + 2 * 4 + 1, :]), 2e-6)
    assert "row 2, column 1" in tab.locator("#reading").inner_text()
    tab.mouse.move(0, 0)
    assert near(maps(), square_maps(weights[..., 0, :]), 2e-6), "pointed at only"
    tab.mouse.click(*patch_at(tab, 2, 1))
    tab.mouse.move(0, 0)
    assert near(maps(), square_maps(weights[..., 10, :]), 2e-6), "kept"

    tab.locator("#picture").focus()
    tab.keyboard.press("Escape")
    assert near(maps(), square_maps(weights[..., 0, :]), 2e-6)
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    assert near(maps(), square_maps(weights[..., 1 + 4 + 2, :]), 2e-6)
    said = tab.locator("#status").inner_text()
    assert "row 1, column 2" in said
    assert "layer 1 head 1 maximum" in said

    x, y = patch_at(tab, 3, 3, ".map")  # a number of a map
    tab.mouse.move(x, y)
    told = re.search(r"→ patch in row 3, column 3: ([\d.]+)", tab.locator("#reading").inner_text())
    assert abs(float(told[1]) - weights[0, 0, 7, 16]) < 1e-4
    tab.locator(".map").nth(3).click()
    table = tab.locator("#numbers-table").inner_text()
    numbers = torch.tensor([float(x) for x in re.findall(r"\d\.\d{4}", table)])
    assert (numbers - weights[1, 1, 7]).abs().max() < 1e-4, "class token first, then the patches"
    shot(tab, "explorer_numbers")
    tab.keyboard.press("Escape")

    low_high = tab.locator(".layer p .small").first.inner_text()
    shown = square_maps(weights[0, :, 7])
    assert low_high == f"scale of the patches {shown.min():.3f} to {shown.max():.3f}"
    tab.locator("#scale").select_option("map")
    assert (
        f"scale of the patches {shown[1].min():.3f} to {shown[1].max():.3f}"
        in tab.locator("figcaption").nth(1).inner_text()
    )
    tab.locator("#over").check()
    shot(tab, "explorer_over")


@pytest.mark.parametrize("alone", [False, True])
def test_what_the_answer_depends_on(alone: bool, opened: Callable[..., Any], page: Any) -> None:
    if alone:  # a page whose worker never answers
        page.add_init_script("window.Worker = class { postMessage() {} terminate() {} }")
    tab, model = opened(), load_model("vit_mnist_p7")
    tab.wait_for_function(DONE, timeout=60_000)
    image = shown_image(tab, model)
    with torch.no_grad():
        one, other = tab.evaluate("pair()")
        full = model(image)[0]
        gone = [
            without(model, image, [t for t in range(17) if t != left])[0] for left in range(1, 17)
        ]
        expected = torch.stack([(full - logits)[one] - (full - logits)[other] for logits in gone])
        found = torch.tensor(
            tab.evaluate(
                "Array.from({length: 16}, (_, i) => task.jobs.findIndex(one => one.key ==="
                " `patch ${1 + i}`)).map(job => score(now.logits) - score(task.answers[job]))"
            )
        )
        assert near(found, expected, 2e-5)
        off = zero_heads(load_model("vit_mnist_p7"), [(1, 0)])(image)[0]
        told = tab.locator("#parts tr").nth(2).locator("td").first.inner_text()
        change = float((full - off)[one] - (full - off)[other])
        assert float(told.replace("−", "-")) == pytest.approx(change, abs=0.011)
        rolled = torch.tensor(tab.evaluate("[...inPlace(rollout(READ))]")).view(4, 4)
        assert near(rolled, square_maps(rollout(attention_weights(model, image))[0, 0]), 2e-6)
        half = without(model, image, list(range(17)), (1,))[0]
        assert float(
            tab.locator("#after td").nth(2).inner_text().replace("−", "-")
        ) == pytest.approx(float(half[one] - half[other]), abs=0.011)
    tab.locator("#one").select_option("3")
    tab.locator("#other").select_option("8")
    assert tab.evaluate("pair()") == [3, 8]
    tab.locator("#other").select_option("3")
    assert tab.evaluate("pair()[0] === 3 && pair()[1] !== 3"), "no class beside itself"
    assert tab.locator("#other").input_value() == "", "nor is it said to be chosen"
    tab.locator("#other").select_option("8")
    values = torch.tensor(tab.evaluate("[...drawnValues.effect]"))
    whole = float((full[3] - full[8]).detach())
    most = max(float(values.abs().max()), 0.01)
    strength = "[...$('effect').getContext('2d').getImageData(0, 0, 4, 4).data]"
    strength = torch.tensor(tab.evaluate(strength)).view(16, 4)[:, 3]
    assert (strength - 255 * values.abs() / most).abs().max() <= 1
    told = tab.locator("#effect-scale").inner_text()
    assert f"+{most:.2f}" in told, "the scale stands beside it"
    difference = float(told.partition("whole difference: ")[2].replace("−", "-"))
    assert difference == pytest.approx(whole, abs=0.011)
    tab.mouse.move(*patch_at(tab, 1, 2, "#effect"))
    told = tab.locator("#causes .reading").first.inner_text()
    read = float(told.rpartition(" ")[2].replace("−", "-"))
    assert "row 1, column 2" in told
    assert read == pytest.approx(float(values[6]), abs=1e-4)
    tab.locator("#effect").focus()
    tab.keyboard.press("ArrowDown")
    assert "row 2, column 2" in tab.locator("#causes .reading").first.inner_text()
    shot(tab, "explorer_why")


@pytest.mark.parametrize(
    ("value", "alpha", "scale"),
    [(0.02, 255, "+0.020"), (0.5, 255, "+0.50"), (0.001, 25, "+0.010")],
)
def test_a_map_of_effects_has_its_own_scale_and_one_of_nothing_is_pale(
    opened: Callable[..., Any], value: float, alpha: int, scale: str
) -> None:
    tab = opened()
    tab.evaluate(f"drawSigned('effect', new Float32Array(16).fill({value}), 5.25)")
    drawn = tab.evaluate("$('effect').getContext('2d').getImageData(0, 0, 1, 1).data[3]")
    assert abs(drawn - alpha) <= 1
    assert scale in tab.locator("#effect-scale").inner_text()


def test_the_pixels_can_be_read_on_every_grey(opened: Callable[..., Any]) -> None:
    tab = opened()
    colours = tab.evaluate("Array.from({length: 256}, (_, grey) => inkOn(grey))")

    def light(share: float) -> float:
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    for grey, colour in enumerate(colours):
        ink = light(int(colour[1] * 2, 16) / 255)
        dark, bright = sorted((ink, light(grey / 255)))
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, grey  # WCAG 2, AA


def test_stored_relevance_is_drawn_for_examples_as_they_are(opened: Callable[..., Any]) -> None:
    tab, model = opened(), load_model("vit_mnist_p7")
    for example in (0, 7):
        after(tab, lambda number=example: tab.evaluate("number => show(number)", number))
        answer, other = tab.evaluate("firstPair()")
        assert tab.evaluate("pair()") == [answer, other]
        expected = relevance(model, shown_image(tab, model), answer, other)[0]
        drawn = torch.tensor(tab.evaluate("[...relevanceOf(state.example)]"))
        assert (drawn - expected).abs().max() <= expected.abs().max() / 250
        told = tab.locator("#relevance-text").inner_text()
        assert f"speak for {answer} rather than {other}" in told
        row, column = divmod(int(expected.argmax()), 4)
        assert f"maximum +{expected.max():.2f} at row {row}, column {column}" in told
    drawn = "[...$('relevance-map').getContext('2d').getImageData(0, 0, 4, 4).data]"
    strength = torch.tensor(tab.evaluate(drawn)).view(16, 4)[:, 3]
    assert strength.argmax() == expected.abs().argmax()
    assert strength.max() == 255, "the largest is drawn the strongest"
    for change in ("edit(({off}) => off.add('0.1'))", "edit(now => { now.pixels[0] = 99; })"):
        after(tab, lambda code=change: tab.evaluate(code))
        assert tab.locator("#relevance-map").is_hidden()
        assert "not for a drawing or a change" in tab.locator("#relevance-text").inner_text()
        assert tab.locator("#effect").is_visible()
        after(tab, lambda: tab.locator("#undo").click())
        assert tab.locator("#relevance-map").is_visible()
    third = next(str(one) for one in range(10) if one not in (answer, other))
    tab.locator("#other").select_option(third)
    assert tab.locator("#relevance-map").is_hidden(), "the answer to another question"
    assert f"{answer} rather than {other}" in tab.locator("#relevance-text").inner_text()
    tab.locator("#reset").click()
    tab.wait_for_function("() => $('other').value === ''")
    tab.locator("#relevance-map").wait_for(state="visible")


def test_what_is_told_of_the_query_and_the_truth_follows_the_changes(
    opened: Callable[..., Any],
) -> None:
    tab, model = opened(), load_model("vit_mnist_p7")
    first = model(shown_image(tab, model))[0].detach()
    tab.evaluate("pin(READ)")
    assert "layer 0 head 0 maximum" in tab.locator("#status").inner_text()
    after(tab, lambda: tab.get_by_label("layer 0", exact=True).uncheck())
    told = tab.locator("#status").inner_text()
    assert "layer 0 head 0 off" in told
    maximum = tab.evaluate("heads[1][0].extent.high")
    assert f"layer 1 head 0 maximum {maximum:.3f}" in told
    tab.evaluate("pin(9)")
    after(tab, lambda: tab.locator("#reset").click())
    assert tab.evaluate("[query, pinned]") == [0, 0]
    assert "truth 7" in tab.locator("#verdict").inner_text()

    tab.mouse.move(*patch_at(tab, 0, 0))
    tab.mouse.down()
    after(tab, lambda: tab.mouse.move(*patch_at(tab, 3, 3), steps=4))
    tab.mouse.up()
    tab.wait_for_timeout(300)
    told = tab.locator("#verdict").inner_text()
    assert "truth" not in told, "what is drawn on may be another digit"
    assert "Without the changes" in told
    ticks = tab.locator("#classes .bar").first.get_attribute("title")
    assert re.search(r"the mark: [\d.]+ % without the changes", ticks)
    assert near(torch.tensor(tab.evaluate("[...untouched]")), first)
    assert tab.locator("#change").is_visible()


def test_examples_and_the_confusion_matrix(opened: Callable[..., Any]) -> None:
    tab = opened(count=500)
    shown = tab.evaluate("sorted.map(one => [one.label !== one.prediction, one.probability])")
    assert len(shown) == 500
    wrong = sum(is_wrong for is_wrong, _ in shown)
    assert [is_wrong for is_wrong, _ in shown] == [False] * (500 - wrong) + [True] * wrong
    assert sorted(tab.evaluate("sorted.slice(0, 10).map(one => one.label)")) == [*range(10)]
    assert f"({wrong} of 500, all here)" in tab.locator("#wrong-text").inner_text()
    assert f"Here are {wrong} misclassified and {500 - wrong} others." in text_of(tab, "#about")
    tab.locator("#wrong").check()
    assert tab.locator("#examples button").count() == wrong
    assert text_of(tab, "#count") == f"{wrong} shown"
    tab.locator("#wrong").uncheck()
    assert tab.locator("#examples button[tabindex='0']").count() == 1, "one tab stop"
    tab.locator("#filter").select_option("7")
    assert tab.locator("#examples button").count() == 50
    tab.locator("#examples button").nth(3).focus()
    tab.keyboard.press("ArrowRight")
    after(tab, lambda: tab.keyboard.press("Enter"))
    assert tab.evaluate("page.examples[state.example].label") == 7
    before = tab.evaluate("past.length")
    tab.keyboard.press("Control+z")
    assert tab.evaluate("past.length") == before - 1
    cell = tab.locator("#matrix button.wrong").first
    count, told = int(cell.inner_text()), cell.get_attribute("title")
    cell.click()
    assert tab.locator("#examples button").count() == count
    in_window = "one => one.getBoundingClientRect().top >= 0"
    assert tab.locator("#picture").evaluate(in_window), "the picture comes into view"
    chip = tab.locator("#chip")
    truth, answer = re.match(r"truth (\d), classified as (\d)", told).groups()
    for title in tab.locator("#examples button").evaluate_all("all => all.map(one => one.title)"):
        assert re.search(rf"classified as {answer}, .*truth {truth}", title)
    shot(tab, "explorer_500")
    assert chip.inner_text() == f"{truth} taken for {answer} ×"
    chip.click()
    assert tab.locator("#examples button").count() == 500
    assert chip.is_hidden()


def test_a_dropped_picture_is_prepared_as_predict_does(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    tab = opened()
    drawn = load_embedded().images[4321, 0]
    paper = (
        Image.fromarray(255 - drawn.numpy())
        .resize((180, 150), Image.Resampling.BICUBIC)
        .convert("RGB")
    )
    paper.save(tmp_path / "<b>4.png")
    after(tab, lambda: tab.locator("#file").set_input_files(tmp_path / "<b>4.png"))
    expected = digit_to_tensor(open_picture(tmp_path / "<b>4.png"))
    found = torch.tensor(tab.evaluate("[...shown]")).view(1, 28, 28)
    assert (found - expected.int()).abs().max() <= 2
    (tmp_path / "no.png").write_text("no picture")
    tab.locator("#file").set_input_files(tmp_path / "no.png")
    tab.wait_for_function(
        "() => /no.png cannot be opened/.test(document.getElementById('status').textContent)"
    )
    with open(tmp_path / "<b>4.png", "rb") as file:
        content = list(file.read())
    after(
        tab,
        lambda: tab.evaluate(
            """content => { const bag = new DataTransfer();
        bag.items.add(new File([new Uint8Array(content)], "dropped.png", {type: "image/png"}));
        const options = {dataTransfer: bag, bubbles: true, cancelable: true};
        document.dispatchEvent(new DragEvent("drop", options)); }""",
            content,
        ),
    )
    assert tab.evaluate("state.name") == "dropped.png"


def stored_page(path: Path) -> tuple[Page, torch.nn.Module, torch.Tensor]:
    """A page of a model that is not run in it, with 1,000 classes and attention of all kinds, sharp
    and flat."""
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(64, 8, 4, 6, 96, 100, num_classes=1000)
    randomise(model)
    with torch.no_grad():
        for i, block in enumerate(model.encoder.layers):
            block.self_attention.in_proj_weight.mul_(1 + 3 * i)
    model.encoder.layers[0].mlp[1] = torch.nn.ReLU()  # so it is none that the page knows
    pictures = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8)
    images = (pictures / 255 - 0.5) / 0.5
    classes = [f"class {i}" for i in range(1000)]
    about = {
        "title": "Stored",
        "text": "three",
        "classes": classes,
        "mean": (0.5,) * 3,
        "std": (0.5,) * 3,
    }
    return (
        write_page(
            path, model.eval(), images, pictures, ["a", "b", "c"], None, **about, digits=False
        ),
        model,
        images,
    )


def test_a_model_that_is_not_run_is_shown_by_stored_weights(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    path, model, images = stored_page(tmp_path / "stored.html")
    tab = opened(path)
    assert tab.locator("#undo").is_hidden()
    number = tab.evaluate("state.example")
    expected = attention_weights(model, images)[number]
    rows = tab.evaluate(
        "now.attention.map(layer => layer.map(head => [...head.slice(65 * 7, 65 * 8)]))"
    )
    assert (torch.tensor(rows) - expected[:, :, 7]).abs().max() <= 0.002
    tab.mouse.move(*patch_at(tab, 0, 6))
    values = torch.tensor(tab.evaluate("[...heads[3][5].values]")).view(8, 8)
    assert (values - square_maps(expected[3, 5, 7])).abs().max() <= 0.002
    assert "0.002" in tab.locator("#about").inner_text()
    assert tab.locator("#effect").is_hidden()
    assert tab.locator("#relevance-map").is_visible()
    assert tab.locator("#classes tr").count() in range(8, 14), "of 1,000 classes those that matter"
    shot(tab, "explorer_stored")


HOSTILE = '</script><img src=x onerror="window.hit=1">{{data}}'


def test_hostile_names_are_shown_and_do_nothing(opened: Callable[..., Any], tmp_path: Path) -> None:
    model, digits = load_model("vit_mnist_p7"), load_embedded()
    images = digits.normalise(digits.images[:3])
    about = {"title": HOSTILE, "text": HOSTILE, "classes": (HOSTILE, *"123456789"), "digits": True}
    about |= {"mean": digits.mean, "std": digits.std}
    found = evaluate_model(model, [(images, digits.labels[:3])], about["classes"], HOSTILE)
    path = write_page(
        tmp_path / "page.html",
        model,
        images,
        digits.images[:3],
        [HOSTILE] * 3,
        [0, 0, 0],
        found,
        **about,
    )
    tab = opened(path)
    tab.wait_for_function(DONE)
    assert tab.evaluate("window.hit") is None
    assert tab.locator("img").count() == 0
    assert tab.locator("h1").inner_text() == HOSTILE
    assert HOSTILE in tab.locator("#verdict").inner_text()
    policy = tab.locator("meta[http-equiv]").get_attribute("content")
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("name", ["the mean and pre_logits", "torchvision", "deep"])
def test_other_models_live(name: str, opened: Callable[..., Any], tmp_path: Path) -> None:
    model = random_model(name)
    c = model.conv_proj.in_channels
    size, k = model.image_size, model.num_classes
    pictures = torch.randint(0, 256, (2, c, size, size), dtype=torch.uint8)
    about = {"title": name, "text": "noise", "classes": [str(i) for i in range(k)], "digits": False}
    about |= {"mean": (0.4,) * c, "std": (0.3,) * c}
    path = write_page(
        tmp_path / "page.html",
        model,
        (pictures / 255 - 0.4) / 0.3,
        pictures,
        ["a", "b"],
        [0, 1],
        **about,
    )
    tab = opened(path)
    tab.wait_for_function(DONE)
    image = shown_image(tab, model)
    assert near(torch.tensor(tab.evaluate("[...now.logits]")), model(image)[0].detach())
    weights = attention_weights(model, image)[0]
    if getattr(model, "pool", "token") == "mean":
        expected = square_maps(weights[..., 1:, :].mean(dim=-2))
    else:
        expected = square_maps(weights[..., 0, :])
    grid = size // model.patch_size
    found = torch.tensor(tab.evaluate("heads.map(layer => layer.map(map => [...map.values]))"))
    assert near(found.view(*found.shape[:2], grid, grid), expected, 2e-6)
    wide = Image.effect_noise((60, 41), 90).convert("RGB")
    wide.save(tmp_path / "wide.png")
    after(tab, lambda: tab.locator("#file").set_input_files(tmp_path / "wide.png"))
    prepared = picture_to_tensor(wide, size, c).flatten().int()
    assert (torch.tensor(tab.evaluate("[...shown]")) - prepared).abs().max() <= 1, "a rounding"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_themes_a_phone_and_the_keyboard_alone(
    scheme: str, opened: Callable[..., Any], page: Any
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    tab = opened()
    tab.wait_for_function(DONE)
    shot(tab, f"explorer_{scheme}")
    paper = [
        int(x)
        for x in re.findall(
            r"\d+", tab.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        )
    ]
    assert (sum(paper[:3]) > 380) == (scheme == "light")
    assert tab.evaluate(
        "getComputedStyle(document.querySelector('.bar i')).transitionDuration"
    ) in ("0s", "")
    stops = []
    for _ in range(60):
        tab.keyboard.press("Tab")
        stops.append(
            tab.evaluate(
                "(one => one === document.body ? 'BODY' : one.id ||"
                " one.textContent)(document.activeElement)"
            )
        )
        if stops[-1] == "BODY":
            break
        assert (
            tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            or stops[-1] == "file"
        )
    assert {"picture", "undo", "reset", "blank", "file", "one", "other", "scale", "over"} <= {
        *stops,
        "undo",
    }
    assert len(stops) < 48, "each term is a stop, and each of the four maps below the heads'"
    names = tab.evaluate(
        "[...document.querySelectorAll('button, select, input, canvas[tabindex]')].filter(one =>"
        " one.checkVisibility()).filter(one => !(one.ariaLabel || one.textContent.trim() ||"
        " one.labels?.length || one.title)).length"
    )
    assert names == 0, "everything that can be pressed has a name"
    tab.set_viewport_size({"width": 360, "height": 740})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.screenshot(
        path=Path(str(shot.__globals__["SHOTS"])) / f"explorer_phone_{scheme}.png", full_page=True
    )


def test_in_a_notebooks_sandbox(opened: Callable[..., Any], page: Any, tmp_path: Path) -> None:
    inside = digits_page(tmp_path / "page.html")
    outer = tmp_path / "notebook.html"
    dark = f'<body style="background: #111; color: #eee">{inside._repr_html_()}</body>'
    outer.write_text(f"<!doctype html>{dark}", encoding="utf-8")
    page.goto(outer.as_uri())
    page.wait_for_function("() => document.querySelector('iframe')")
    frame = page.frames[1]
    frame.wait_for_function("() => now !== null")
    frame.wait_for_function(DONE, timeout=60_000)
    paper = frame.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert paper == "rgb(19, 21, 24)", "dark, as the text of the notebook is light"
    shot(page, "explorer_in_a_notebook")
    kept = re.sub(r"<iframe.*?</iframe>", "", inside._repr_html_(), flags=re.DOTALL)
    assert len(kept) < 200_000
    assert "<script" not in html.unescape(kept)
    assert json.dumps(kept)


def test_a_subclass_whose_forward_differs_is_not_run(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    class Doubled(VisionTransformer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    model = Doubled(12, 4, 2, 2, 16, 32, num_classes=3, in_channels=1)
    randomise(model)
    pictures = torch.randint(0, 256, (1, 1, 12, 12), dtype=torch.uint8)
    about = {
        "title": "t",
        "text": "x",
        "classes": list("abc"),
        "mean": (0.0,),
        "std": (1.0,),
        "digits": False,
    }
    path = write_page(
        tmp_path / "p.html", model.eval(), pictures / 255, pictures, ["a"], None, **about
    )
    tab = opened(path)
    assert tab.evaluate("live") is False
    assert near(torch.tensor(tab.evaluate("[...now.logits]")), model(pictures / 255)[0].detach())


def test_it_opens_on_a_clear_picture_with_the_answer_beside_it(opened: Callable[..., Any]) -> None:
    tab = opened()
    assert tab.evaluate("state.label === ranking(now.logits)[0]"), "classified correctly"
    assert tab.evaluate("probabilities(now.logits)[state.label]") > 0.8
    assert tab.evaluate("tool") == "draw"
    for width, height in ((1366, 768), (1024, 768), (844, 390), (700, 900), (390, 844)):
        tab.set_viewport_size({"width": width, "height": height})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        picture, answer = (
            tab.locator(f"#{name}").bounding_box() for name in ("picture", "verdict")
        )
        assert picture["x"] + picture["width"] <= answer["x"], "beside the picture"
        assert picture["y"] - 5 <= answer["y"] < picture["y"] + picture["height"]
        assert picture["y"] + picture["height"] <= height, "all of it is seen"
        table, room = (tab.locator(name).bounding_box() for name in ("#answer table", "#answer"))
        assert table["width"] <= room["width"], "no number is cut"
        rest = tab.locator("#examples").evaluate("one => (one.clientHeight - 2) % 50")
        assert rest == 0, "no row of examples is cut through"

    after(tab, lambda: tab.evaluate("pin(9)") or tab.locator("#blank").click())
    assert tab.evaluate("query") == 0, "a query does not outlive its picture"
    assert "nothing drawn yet" in tab.locator("#verdict").inner_text()
    tab.locator("#maps [data-term=head]").hover()
    assert "attentions that run side by side" in tab.locator("#definition").inner_text()
    tab.keyboard.press("Escape")
    assert tab.locator("#definition").is_hidden()


def test_a_link_brings_everything_back(opened: Callable[..., Any], tmp_path: Path) -> None:
    path = digits_page(tmp_path / "page.html")
    tab = opened(path)
    after(tab, lambda: tab.locator("#blank").click())
    tab.mouse.move(*patch_at(tab, 0, 2))
    tab.mouse.down()
    tab.mouse.move(*patch_at(tab, 3, 1), steps=8)
    tab.mouse.up()
    tab.evaluate(
        "edit(({order, removed, off}) => { order[0] = 15; order[15] = 0;"
        " removed.add(7); off.add('0.1'); }); pin(5); choosePair('4', '9')"
    )
    tab.wait_for_timeout(300)
    what = "() => ({logits: [...now.logits], tokens: now.tokens, query, pair: pair(),"
    what += " order: state.order})"
    expected = tab.evaluate(what)
    tab.locator("#scale").select_option("map")
    tab.locator("#filter").select_option("4")
    tab.locator("#over").check()
    tab.locator("#share").click()
    tab.locator("#link").wait_for()  # it opens when the link is made
    link = tab.locator("#link-here").input_value()
    assert link.startswith("#")
    assert tab.evaluate("openAddress('#example=none&removed=<b>')") is False
    assert "example none" in tab.locator("#notice").inner_text()
    assert tab.evaluate("openAddress('#example=none&why=4&than=99')") is False
    again = opened(Path(path))
    again.locator("#share").click()
    again.locator("#link-given").fill("https://elsewhere.example/page.html" + link)
    after(again, lambda: again.locator("#link-open").click())
    assert again.evaluate(what) == expected
    assert again.evaluate("[$('scale').value, $('filter').value, $('over').checked]") == [
        "map",
        "4",
        True,
    ]
    assert again.locator("body.over").count() == 1
    assert text_of(again, "#count") == "2 shown"
    with again.expect_download() as saved:
        again.locator("#save").click()
    saved.value.save_as(tmp_path / "saved.png")
    picture = Image.open(tmp_path / "saved.png")
    assert picture.size == (896, 448), "the picture and the answer"
    assert again.locator("#notice").is_visible(), "it says that it is saved"


def test_the_clipboard_is_left_alone_until_copy_is_pressed(opened: Callable[..., Any]) -> None:
    tab = opened()
    stub = "Object.defineProperty(navigator, 'clipboard', {value: {writeText: %s}})"
    tab.evaluate(stub % "async text => { window.copied = text }")
    tab.locator("#share").click()
    tab.locator("#link").wait_for()
    assert tab.evaluate("window.copied") is None
    assert "the query" in text_of(tab, "#link-text"), "it says what the link holds"
    tab.locator("#link-copy").click()
    tab.wait_for_function("() => window.copied === $('link-here').value")
    assert text_of(tab, "#link-text") == "Copied."
    tab = opened()
    tab.evaluate(stub % "async () => { throw new Error() }")
    tab.locator("#share").click()
    tab.locator("#link-copy").click()
    tab.wait_for_function("() => $('link-text').textContent.includes('Ctrl+C')")
    selected = "$('link-here').selectionEnd - $('link-here').selectionStart"
    assert tab.evaluate(selected) == len(tab.locator("#link-here").input_value())


def test_a_link_keeps_which_examples_are_listed(opened: Callable[..., Any]) -> None:
    tab = opened(GALLERY / "index.html")
    assert text_of(tab, "#count") == "101 shown"
    tab.locator("#wrong").check()
    link = tab.evaluate("addressOf(state)")
    assert "wrong=1" in link
    tab.locator("#matrix button.wrong").first.click()
    cell = tab.evaluate("addressOf(state)")
    listed = tab.locator("#examples button").count()
    tab.evaluate("text => openAddress(text)", link)
    assert text_of(tab, "#count") == "33 shown"
    assert tab.locator("#chip").is_hidden()
    tab.evaluate("text => openAddress(text)", cell)
    assert tab.locator("#examples button").count() == listed
    assert tab.locator("#chip").is_visible()
    assert not tab.locator("#wrong").is_checked()
    tab.evaluate("openAddress('#example=7_3500&cell=4,x&scale=none&class=77')")
    assert text_of(tab, "#count") == "101 shown"
    assert tab.locator("#scale").input_value() == "layer"


def test_reset_brings_a_picture_back_as_it_was_opened(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    tab = opened()
    digit = Image.fromarray(load_embedded().images[4321, 0].numpy())
    digit.save(tmp_path / "4.png")
    link = "#pixels=" + tab.evaluate("packed(pixelsOf(3), CompressionStream).then(toText)")
    ways = {
        "blank": lambda: tab.locator("#blank").click(),
        "file": lambda: tab.locator("#file").set_input_files(tmp_path / "4.png"),
        "link": lambda: tab.evaluate("text => openAddress(text)", link),
        "example": lambda: tab.evaluate("show(5)"),
    }
    for way, open_it in ways.items():
        after(tab, open_it)
        before = tab.evaluate("[...state.pixels]")
        line(tab, 4, 4, 24, 24)
        after(tab, lambda: tab.evaluate("edit(({off}) => off.add('0.1'))"))
        changed = tab.evaluate("[...state.pixels]")
        assert changed != before, way
        after(tab, lambda: tab.locator("#reset").click())
        assert tab.evaluate("[...state.pixels]") == before, way
        assert tab.evaluate("state.off.size") == 0
        assert "Undo takes that back" in text_of(tab, "#status")
        after(tab, lambda: tab.evaluate("show(7)"))
        assert "Undo takes that back" not in text_of(tab, "#status")
        after(tab, lambda: tab.locator("#undo").click())
        after(tab, lambda: tab.locator("#undo").click())
        assert tab.evaluate("[...state.pixels]") == changed, way


def test_a_wrong_answer_is_marked_and_a_saved_picture_says_what_is_changed(
    opened: Callable[..., Any],
) -> None:
    tab = opened(GALLERY / "index.html")
    colour = "getComputedStyle($('verdict').firstChild).color"
    right = tab.evaluate(colour)
    assert "wrong" not in text_of(tab, "#verdict")
    after(tab, lambda: tab.evaluate("show(page.examples.findIndex(isWrong))"))
    truth = tab.evaluate("truth()")
    assert f"✗ wrong: truth {truth}" in text_of(tab, "#verdict")
    assert tab.evaluate(colour) != right
    assert tab.evaluate("changesInWords()") == ""
    change = "edit(({off, removed, order}) => { off.add('0.0'); %s })"
    after(tab, lambda: tab.evaluate(change % "removed.add(60)"))
    assert tab.evaluate("changesInWords()") == "1 patch removed; head 0 of layer 0 off"
    more = "removed.add(61); order[0] = 9; order[9] = 0; off.add('1')"
    after(tab, lambda: tab.evaluate(change % more))
    told = "2 patches removed; 2 patches moved; head 0 of layer 0, layer 1 off"
    assert tab.evaluate("changesInWords()") == told
    tab.evaluate(
        "() => { window.written = []; const {fillText} = CanvasRenderingContext2D.prototype;"
        " CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {"
        " written.push(text); fillText.call(this, text, ...more); }; drawSaved(); }"
    )
    written = " ".join(tab.evaluate("written"))
    assert told in written, "in one line or more"
    assert f"truth {truth}" in written
    after(tab, lambda: tab.locator("#reset").click())
    line(tab, 4, 4, 24, 24)
    assert tab.evaluate("changesInWords()") == "drawn on"


def test_what_training_aimed_at_is_said_where_it_is_known(opened: Callable[..., Any]) -> None:
    assert json.loads((ROOT / "weights/vit_mnist.json").read_text("utf-8"))["recipe"][
        "label_smoothing"
    ] == pytest.approx(0.05)
    tab = opened(GALLERY / "index.html")
    assert text_of(tab, "#aim") == "Training aimed at 95.5 %, not at 100 %: label smoothing."
    assert opened().locator("#aim").is_hidden(), "nothing is known of this model's training"


def test_a_finger_taps(opened: Callable[..., Any], chromium: Any, tmp_path: Path) -> None:
    path = digits_page(tmp_path / "page.html")
    tab = opened(path)
    assert text_of(tab, "#maps-hint") == "Click a map for its numbers."
    phone = {"width": 390, "height": 844}
    context = chromium.new_context(viewport=phone, has_touch=True, is_mobile=True)
    tab = context.new_page()
    tab.goto(path.resolve().as_uri())
    tab.wait_for_function("() => now !== null")
    assert text_of(tab, "#maps-hint") == "Tap a map for its numbers."
    for number in range(14):
        tab.evaluate("number => goTo(number)", number)
        assert "lick" not in text_of(tab, "#tour")
        tab.wait_for_timeout(50)
    tab.evaluate("choose('look')")
    assert text_of(tab, "#status") == "Tap a patch: it is the query."
    tab.evaluate("pin(READ)")
    status = "one => one.scrollHeight <= one.clientHeight"
    assert tab.locator("#status").evaluate(status), "nothing of it is clipped"
    context.close()


def test_the_rows_of_a_window_of_numbers_keep_their_labels(opened: Callable[..., Any]) -> None:
    tab = opened(GALLERY / "index.html")
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.locator(".map").first.click()
    room = tab.locator("#numbers .scroll")
    room.evaluate("one => one.scrollTo(300, 0)")
    assert room.evaluate("one => one.scrollLeft") > 100
    label = tab.locator("#numbers-table tr").nth(5).locator("th")
    assert label.bounding_box()["x"] >= room.bounding_box()["x"]
    tab.keyboard.press("Escape")
    small = opened()
    small.evaluate("openToken(prefix)")
    table = small.locator("#origin-text table").first
    numbers = table.locator("tr").evaluate_all("all => all.map(row => row.cells.length - 1)")
    assert numbers == [7] * 8, "a row for each of the patch's seven, below the numbers of columns"


def test_a_logit_that_is_not_finite_is_a_sentence(opened: Callable[..., Any]) -> None:
    tab = opened()
    after(tab, lambda: tab.evaluate("weights['heads.head.bias'][3] = Infinity; edit(() => {})"))
    assert "no answer" in tab.locator("#verdict").inner_text()
    assert "too large" in tab.locator("#verdict").inner_text()


def test_a_model_without_a_class_head_has_a_page_of_maps(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    tab = opened(headless_page(tmp_path))
    assert tab.locator("#verdict").is_hidden()
    assert tab.locator("#causes").is_hidden()
    assert tab.locator("#rolled").is_visible(), "attention through all layers needs no class"
    assert tab.locator(".map").first.is_visible()
    tab.locator("#examples button").nth(1).click()
    tab.wait_for_function("() => state.example === 1")


def test_a_map_a_weight_a_logit_and_a_token_open(opened: Callable[..., Any]) -> None:
    tab, model = opened(), load_model("vit_mnist_p7")
    image = shown_image(tab, model)
    weights = attention_weights(model, image)[0]
    tab.mouse.click(*patch_at(tab, 2, 1, ".map"))
    shown_row = "one => getComputedStyle(one).getPropertyValue('--spot-row')"
    assert tab.locator("#numbers").evaluate(shown_row) == "2", "the square that was clicked"
    pressed = tab.locator("#numbers-spot").inner_text()
    assert pressed == f"patch in row 2, column 1: {weights[0, 0, 0, 10]:.4f}"
    chosen = tab.locator("#numbers-table .chosen")
    assert chosen.inner_text() == f"{weights[0, 0, 0, 10]:.4f}", "its number is marked"
    colours = "one => one.toDataURL()"
    small = tab.locator(".map canvas")
    assert tab.locator("#large").evaluate(colours) == small.nth(0).evaluate(colours)
    tab.keyboard.press("Escape")
    tab.locator(".map").nth(1).click()
    assert tab.locator("#large").evaluate(colours) == small.nth(1).evaluate(colours), "one scale"
    tab.locator("#numbers-table button").nth(0).focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    told = tab.locator("#origin-text").inner_text()
    found = re.search(r"= ([\d.]+), the weight", told)[1]
    assert float(found) == pytest.approx(float(weights[0, 1, 0, 1]), abs=1e-4)
    assert "√32 = 5.657" in told
    tab.locator("#origin [data-term=score]").hover()
    top = "one => { const {x, y} = one.getBoundingClientRect();"
    top += " return document.elementsFromPoint(x + 9, y + 9).includes(one); }"
    tab.locator("#definition").evaluate("one => { one.style.pointerEvents = 'auto' }")
    assert tab.locator("#definition").evaluate(top), "above the dialog"
    shot(tab, "explorer_weight")
    tab.keyboard.press("Escape")
    tab.keyboard.press("Escape")
    tab.locator("#classes td button").nth(4).click()
    told = tab.locator("#origin-title").inner_text().replace("−", "-")
    logit = float(model(image)[0, 4].detach())
    assert float(told.rpartition(": ")[2]) == pytest.approx(logit, abs=1e-3)


def test_each_block_of_the_models_row_opens(opened: Callable[..., Any]) -> None:
    tab, model = opened(), load_model("vit_mnist_p7")
    tab.get_by_role("button", name="16 patches and a class token").click()
    told = tab.locator("#origin-text").inner_text()
    assert "the same for every picture" in told
    alike = torch.equal(model.class_token[0, 0], model.encoder.pos_embedding[0, 0])
    assert ("Here the two are equal" in told) == alike
    tab.evaluate("openToken(prefix)")
    assert "equal" not in tab.locator("#origin-text").inner_text(), "of the class token only"
    tab.keyboard.press("Escape")
    for name, word in (("picture", "784 numbers"), ("layer 0", "64"), ("class token at", "given")):
        tab.locator("#model-drawing button", has_text=name).first.click()
        assert word in tab.locator("#origin-text").inner_text()
        for width in (1366, 390):
            tab.set_viewport_size({"width": width, "height": 800})
            tab.locator("#origin").evaluate("one => one.scrollTo(0, one.scrollHeight)")
            close = tab.locator("#origin button", has_text="Close")
            assert 0 <= close.bounding_box()["y"] < 800, "Close stays in view"
            assert tab.locator("#origin").bounding_box()["width"] <= width
        tab.set_viewport_size({"width": 1366, "height": 768})
        tab.keyboard.press("Escape")
    tab.locator("#model-drawing button", has_text="layer 1").hover()
    lit = tab.locator(".layer.lit")
    assert "scale" in lit.inner_text()
    assert lit.evaluate("one => one.dataset.part") == "layer 1"


def line(tab: Any, x0: float, y0: float, x1: float, y1: float) -> float:
    """A stroke from pixel to pixel; returns how far the picture has moved under the pen."""
    box = tab.locator("#picture").bounding_box()
    pixel = box["width"] / 28
    tab.mouse.move(box["x"] + x0 * pixel, box["y"] + y0 * pixel)
    tab.mouse.down()
    after(tab, lambda: tab.mouse.move(box["x"] + x1 * pixel, box["y"] + y1 * pixel, steps=6))
    tab.wait_for_timeout(100)  # the last of the steps
    moved = tab.locator("#picture").bounding_box()["y"] - box["y"]
    tab.mouse.up()
    return abs(moved)


def seven(tab: Any) -> float:
    return max(line(tab, 7, 7, 20, 7), line(tab, 20, 7, 12, 23))


def without_bar(tab: Any) -> float:
    return max(line(tab, 5, y, 17, y) for y in (6, 7, 8))


@pytest.mark.parametrize("width", [1366, 390])
def test_the_tour_leaves_the_visitors_drawing(
    opened: Callable[..., Any], page: Any, width: int
) -> None:
    page.emulate_media(reduced_motion="reduce")  # the page is not scrolling any more
    tab = opened()
    tab.set_viewport_size({"width": width, "height": 800})
    told, text = tab.locator("#tour-found"), tab.locator("#tour-text")
    tab.locator("#tour-start").click()
    tab.wait_for_function("() => isBlank()")
    assert seven(tab) == 0, "nothing moves under the pen"
    assert told.inner_text().startswith("✓"), "told when the pen is lifted"
    own = tab.evaluate("[...state.pixels]")
    tab.evaluate("goTo(13)")
    assert without_bar(tab) == 0
    assert "The answer is now" in told.inner_text()
    tab.locator("#tour-again").click()
    tab.wait_for_function("() => best() === SEVEN")
    assert tab.evaluate("[...state.pixels]") == own, "the visitor's 7, not the example"
    assert f"the 7 has {tab.evaluate('sure(SEVEN)')}." in text.inner_text()
    without_bar(tab)
    erased = tab.evaluate("[...state.pixels]")
    tab.locator("#tour-back").click()
    assert tab.evaluate("[...state.pixels]") == erased

    tab.locator("#tour-start").evaluate("one => one.click()")
    tab.wait_for_function("() => isBlank()")
    line(tab, 14, 4, 14, 24)
    one = tab.evaluate("[...state.pixels]")
    tab.locator("#tour-next").click()
    assert tab.evaluate("[...state.pixels]") == one, "no 7, and kept as long as no step needs one"
    tab.evaluate("goTo(13)")
    assert "here is an example" in text.inner_text()
    tab.locator("#undo").click()
    assert tab.evaluate("[...state.pixels]") == one


@pytest.mark.parametrize(("width", "height"), [(1024, 768), (700, 900), (390, 844)])
def test_a_step_of_the_tour_brings_what_it_asks_for_into_view(
    opened: Callable[..., Any], page: Any, width: int, height: int
) -> None:
    page.emulate_media(reduced_motion="reduce")
    tab = opened()
    tab.set_viewport_size({"width": width, "height": height})
    targets = ["#board", "#board", '#model-drawing [data-part="tokens"]', "#board"]
    targets += ["#askers [data-part]", *['.layer[data-part="layer 0"]'] * 6]
    targets += ['.layer[data-part="layer 0"]', "#answer", "#board"]  # 12: where its boxes are
    for number, target in enumerate(targets):
        tab.evaluate("number => goTo(number)", number)
        panel, box = tab.locator("#tour").bounding_box(), tab.locator(target).bounding_box()
        assert panel["y"] + panel["height"] <= box["y"] + 1, number + 1
        assert box["y"] + box["height"] <= height, number + 1
        lit = '.layer[data-part="layer 1"]' if number == 11 else target
        assert tab.locator(lit).evaluate("one => one.classList.contains('lit')"), number + 1


@pytest.mark.parametrize("width", [1366, 390])
def test_a_drawing_that_is_no_seven_is_answered(opened: Callable[..., Any], width: int) -> None:
    tab = opened()
    tab.set_viewport_size({"width": width, "height": 800})
    told = tab.locator("#tour-found")
    tab.locator("#tour-start").click()
    tab.wait_for_function("() => isBlank()")
    place = tab.locator("#picture").bounding_box()
    for stroke in ((9, 5, 19, 5), (19, 5, 19, 22), (19, 22, 9, 22), (9, 22, 9, 5)):
        line(tab, *stroke)
        assert tab.locator("#picture").bounding_box() == place, "not between strokes, either"
    tab.wait_for_function("() => best() !== SEVEN && $('tour-found').textContent !== ''")
    expected = tab.evaluate("`The answer is ${best()}, ${sure(best())}; a 7 is asked for.`")
    assert told.inner_text().startswith(expected)
    tab.locator("#blank").click()
    tab.wait_for_function("() => $('tour-found').textContent === ''")
    seven(tab)
    until_told(tab)
    assert f"The model's answer is 7, {tab.evaluate('sure(SEVEN)')}." in told.inner_text()
    assert "If your 7 is not finished, draw on." in told.inner_text()
    line(tab, 9, 22, 19, 22)
    line(tab, 9, 5, 9, 22)
    tab.wait_for_function("() => best() !== SEVEN")
    assert "✓" not in told.inner_text(), "it is no 7 any more"


def test_a_step_of_the_tour_answers_a_wrong_action(opened: Callable[..., Any]) -> None:
    tab = opened()
    told = tab.locator("#tour-found")
    tab.evaluate("goTo(2)")
    tab.locator("#model-drawing button").nth(1).click()
    assert told.inner_text() == "This is the class token: first click a patch."
    tab.keyboard.press("Escape")
    tab.evaluate("goTo(4)")
    assert tab.locator(".lit:not(#tour)").count() == 1, "one place is lit"
    tab.locator("#model-drawing button", has_text="class token at the end").click()
    assert told.inner_text() == 'That was another one: the button is beside "Query".'
    tab.keyboard.press("Escape")
    tab.locator("#askers button").click()
    assert told.inner_text().startswith("✓")
    tab.evaluate("goTo(1)")
    tab.evaluate("pin(prefix)")
    assert told.inner_text() == "This patch is blank: one with ink is asked for."
    tab.evaluate("pin(prefix + 6)")
    assert told.inner_text().startswith("✓")
    tab.evaluate("pin(prefix)")
    assert told.inner_text().startswith("✓"), "once done, it is done"
    tab.evaluate("goTo(3)")
    tab.evaluate("pin(prefix + 6)")
    assert told.inner_text() == "This patch has ink: a blank one is asked for."
    tab.evaluate("goTo(7)")
    tab.evaluate(
        "opened = heads[0][0]; openWeight(opened, prefix + (opened.extent.at + 1) % patches)"
    )
    largest = tab.evaluate("nameOf(now.tokens[opened.row.indexOf(Math.max(...opened.row))])")
    assert "not the largest" in told.inner_text()
    assert largest in told.inner_text()
    tab.evaluate("openWeight(opened, now.tokens[opened.row.indexOf(Math.max(...opened.row))])")
    assert told.inner_text().startswith("✓")


def tour_actions(tab: Any) -> list[Callable[[], Any]]:
    """What the 14 steps ask for, by mouse, on a page of 4 × 4 patches."""

    def weight() -> None:
        tab.locator(".map").first.click()
        tab.evaluate("openWeight(heads[0][0], prefix + heads[0][0].extent.at)")
        tab.keyboard.press("Escape")
        tab.keyboard.press("Escape")

    def click(selector: str, nth: int = 0) -> Callable[[], Any]:
        return lambda: (tab.locator(selector).nth(nth).click(), tab.keyboard.press("Escape"))

    return [
        lambda: seven(tab),
        lambda: tab.mouse.click(*patch_at(tab, 1, 2)),
        click("#model-drawing button", 1),
        lambda: tab.mouse.click(*patch_at(tab, 3, 0)),
        click("#askers button"),
        click(".map"),
        weight,
        weight,
        lambda: tab.get_by_label("head 1").first.uncheck(),
        lambda: (
            tab.get_by_label("head 1").first.check(),
            tab.get_by_label("head 0").first.uncheck(),
        ),
        lambda: tab.get_by_label("layer 0", exact=True).uncheck(),
        lambda: (
            tab.get_by_label("layer 0", exact=True).check(),
            tab.get_by_label("head 0").first.check(),
        ),
        click("#classes td button", 7),
        lambda: without_bar(tab),
    ]


def until_told(tab: Any) -> None:
    tab.wait_for_function("() => $('tour-found').textContent.startsWith('✓')")


def panel(tab: Any) -> list[float]:
    """The height of the tour's panel, and where Next stands in it."""
    box, following = (tab.locator(name).bounding_box() for name in ("#tour", "#tour-next"))
    return [box["height"], following["x"] - box["x"], following["y"] - box["y"]]


@pytest.mark.parametrize("width", [1366, 390, 320])
def test_a_tour_from_pixels_to_probabilities(
    opened: Callable[..., Any], page: Any, width: int
) -> None:
    page.emulate_media(reduced_motion="reduce")
    tab = opened()
    tab.set_viewport_size({"width": width, "height": 800})
    actions = tour_actions(tab)
    tab.locator("#tour-start").click()
    tab.wait_for_function("() => isBlank()")
    for number, act in enumerate(actions, start=1):
        before = panel(tab)
        assert tab.locator("#tour-title").inner_text().startswith(f"{number} of {len(actions)}:")
        assert tab.locator("#tour-found").inner_text() == "", "not before the action"
        act()
        until_told(tab)
        assert panel(tab) == before, f"step {number} moves what stands below it"
        patched = tab.locator("body.gridded").count() == 1
        assert patched == (number in (2, 3, 4)), "a grid where patches are spoken of"
        if number in (1, 8, 14):
            shot(tab, f"explorer_tour_{number}_{width}")
        if number == 7:
            link = tab.evaluate("addressOf(state)")
            tab.locator("#tour-again").click()
            act()
            until_told(tab)
        assert tab.locator("#tour-on").is_hidden(), "a page alone leads nowhere"
        tab.locator("#tour-next").click()
    assert tab.locator("#tour").is_hidden()
    assert tab.evaluate("ranking(now.logits)[0]") != 7
    tab.evaluate("text => openAddress(text)", link)
    assert tab.locator("#tour-title").inner_text().startswith("7 of 14"), "a step has a link"


# --- the gallery's two pages: the tour begins in the smallest model's ---

GALLERY = ROOT / "attention"


def ready(tab: Any, model: str) -> None:
    """Wait until the page of this model is there, with its answer."""
    condition = f"() => document.title === 'Inside {model}' && typeof now !== 'undefined' && now"
    tab.wait_for_function(condition)
    tab.wait_for_timeout(300)


def same_picture_in_the_larger_model(tab: Any, own: list[int]) -> None:
    """What the end of the way through both pages must be: the picture, its numbers, the step."""
    ready(tab, "vit_mnist")
    assert tab.url.startswith(f"{GALLERY.as_uri()}/index.html#")
    assert tab.evaluate("[...shown]") == own, "pixel for pixel"
    title = tab.locator("#tour-title").inner_text()
    assert title == "2 of 14 in vit_mnist: Patches"
    text = text_of(tab, "#tour-text")
    assert text.startswith("What is new here: 196 patches of 4 pixels in place of 16 of 49."), text
    assert "14 × 14 patches" in text
    model = load_model("vit_mnist")
    image = shown_image(tab, model)
    with torch.no_grad():
        assert near(torch.tensor(tab.evaluate("[...now.logits]")), model(image)[0])
    inked = tab.evaluate("[...Array(patches).keys()].find(patch => inkIn(prefix + patch) > 0)")
    tab.mouse.click(*patch_at(tab, *divmod(inked, 14)))
    assert "pixels with ink" in tab.locator("#tour-found").inner_text(), "the tour goes on"


def test_the_smallest_models_page_computes_what_pytorch_does(opened: Callable[..., Any]) -> None:
    tab, model = opened(GALLERY / "smallest.html"), load_model("vit_mnist_p7")
    digits = load_embedded()
    for i, name in enumerate(tab.evaluate("page.examples.map(one => one.name)")):
        picture = digits.images[int(name.partition("_")[2])][None]
        logits = after(tab, lambda number=i: tab.evaluate("i => show(i)", number))
        image = digits.normalise(picture)
        assert torch.equal(shown_image(tab, model), image), name
        weights = tab.evaluate("now.attention.map(layer => layer.map(head => [...head]))")
        with torch.no_grad():
            assert near(logits, model(image)[0]), name
            expected = attention_weights(model, image)[0]
        assert (torch.tensor(weights).view_as(expected) - expected).abs().max() < 2e-6


@pytest.mark.parametrize("width", [1366, 390])
def test_the_tour_goes_through_both_pages(
    opened: Callable[..., Any], page: Any, width: int
) -> None:
    page.emulate_media(reduced_motion="reduce")
    tab = opened(GALLERY / "index.html")
    tab.set_viewport_size({"width": width, "height": 800})
    tab.locator("#tour-start").click()
    assert tab.locator("#tour").is_hidden(), "first it is asked where it begins"
    assert "17 tokens" in tab.locator("#tour-smallest").inner_text()
    tab.locator("#tour-smallest").click()
    ready(tab, "vit_mnist_p7")
    actions = tour_actions(tab)
    for number, act in enumerate(actions, start=1):
        expected = f"{number} of {len(actions)} in vit_mnist_p7: "
        assert tab.locator("#tour-title").inner_text().startswith(expected)
        tab.locator("#tour-on").wait_for(state="hidden" if number < 14 else "visible")
        if number == 14:
            own = tab.evaluate("[...shown]")
        act()
        until_told(tab)
        if number < 14:
            tab.locator("#tour-next").click()
    assert tab.evaluate("[...shown]") != own, "the top stroke is gone"
    assert text_of(tab, "#tour-on") == "Steps 2 to 14 again, in vit_mnist: 196 patches"
    tab.locator("#tour-on").click()
    same_picture_in_the_larger_model(tab, own)
    tab.go_back()
    ready(tab, "vit_mnist_p7")
    assert tab.locator("#tour-title").inner_text().startswith("14 of 14")
    tab.locator("#tour-leave").click()
    assert tab.evaluate("location.hash") == "", "loading the page again begins no tour"
    tab.locator("#larger").click()
    ready(tab, "vit_mnist")
    assert tab.locator("#tour").is_hidden(), "the way back without a tour"


def test_an_example_has_the_same_name_in_both_pages(opened: Callable[..., Any]) -> None:
    tab = opened(GALLERY / "smallest.html")
    tab.evaluate("goTo(13)")
    own, name = tab.evaluate("[...shown]"), tab.evaluate("state.name")
    tab.locator("#tour-on").click()
    same_picture_in_the_larger_model(tab, own)
    assert tab.evaluate("state.name") == name
    assert "truth 7" in tab.locator("#verdict").inner_text()


def test_the_tour_begins_in_the_pages_own_model_if_the_visitor_prefers(
    opened: Callable[..., Any],
) -> None:
    tab = opened(GALLERY / "index.html")
    tab.locator("#tour-start").click()
    tab.locator("#tour-not").click()
    assert tab.locator("#tour-where").is_hidden()
    tab.locator("#tour-start").click()
    tab.locator("#tour-here").click()
    assert tab.locator("#tour-where").is_hidden()
    assert tab.locator("#tour-title").inner_text() == "1 of 14 in vit_mnist: Pixels"
    tab.evaluate("goTo(13)")
    assert tab.locator("#tour-on").is_hidden(), "there is no larger one"


def test_without_the_file_beside_it_a_page_is_whole(page: Any, tmp_path: Path) -> None:
    alone = tmp_path / "index.html"
    alone.write_bytes((GALLERY / "index.html").read_bytes())
    page.goto(alone.as_uri() + "#example=3_1500&off=0.1")
    ready(page, "vit_mnist")
    page.locator("#tour-start").click()
    page.locator("#tour-smallest").click()
    page.wait_for_function("() => location.protocol === 'chrome-error:'")
    page.go_back()
    ready(page, "vit_mnist")
    assert page.evaluate("state.name") == "3_1500", "as it was left"
    assert page.evaluate("[...state.off]") == ["0.1"]
    page.locator("#tour-start").click()
    page.locator("#tour-here").click()
    assert page.locator("#tour-title").inner_text().startswith("1 of 14")


def test_a_notebooks_frame_names_the_file_that_it_cannot_open(page: Any, tmp_path: Path) -> None:
    outer = tmp_path / "notebook.html"
    for name, last in (("index", False), ("smallest", True)):
        inside = Page(GALLERY / f"{name}.html")
        outer.write_text(f"<!doctype html>{inside._repr_html_()}", encoding="utf-8")
        page.goto(outer.as_uri())
        page.wait_for_function("() => document.querySelector('iframe')")
        frame = page.frames[1]
        frame.wait_for_function("() => typeof now !== 'undefined' && now !== null")
        frame.locator("#tour-start").click()
        if last:
            frame.evaluate("goTo(13)")
            frame.evaluate("edit(({pixels}) => pixels.fill(255, 28 * 12, 28 * 16))")
            frame.wait_for_function("() => $('tour-found').textContent.startsWith('✓')")
            assert "index.html" in frame.locator("#tour-found").inner_text()
            assert frame.locator("#tour-on").is_hidden()
            assert frame.locator("#larger").is_hidden()
        else:
            assert "smallest.html" in frame.locator("#tour-where-text").inner_text()
            assert frame.locator("#tour-smallest").is_hidden()
            frame.locator("#tour-here").click()
            assert frame.locator("#tour-title").inner_text().startswith("1 of 14")


class Keys:
    """Someone who has a keyboard alone."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab

    def press(self, *names: str) -> None:
        for name in names:
            self.tab.keyboard.press(name)

    def to(self, selector: str, *names: str) -> None:
        """Press Tab, as often as it takes, until the focus is there; then these keys."""
        for _ in range(80):
            if self.tab.evaluate("selector => document.activeElement.matches(selector)", selector):
                self.press(*names)
                return
            self.press("Tab")
        raise AssertionError(f"Tab does not reach {selector}")

    def next_step(self) -> None:
        until_told(self.tab)
        self.to("#tour-next", "Enter")


def steps_1_to_5(keys: Keys) -> None:
    """A 7, drawn; a patch with ink; the tokens; a blank patch; the class token."""
    keys.to("#picture", *["ArrowDown"] * 7, *["ArrowRight"] * 7)
    keys.press("Space", *["ArrowRight"] * 13)
    keys.press(*["ArrowDown", "ArrowDown", "ArrowLeft"] * 8, "Space")
    keys.next_step()
    keys.to("#picture", "Space")  # where the pen was lifted
    keys.next_step()
    keys.to("#model-drawing button", "ArrowRight", "Enter", "Escape")
    keys.next_step()
    keys.to("#picture", *["ArrowDown"] * 4, *["ArrowLeft"] * 4, "Space")
    keys.next_step()
    keys.to("#askers button", "Enter")
    keys.next_step()


def steps_6_to_8(keys: Keys) -> None:
    """A map; a weight; the largest weight."""
    keys.to(".map", "Enter", "Escape")
    keys.next_step()
    keys.to(".map", "Enter")
    keys.to("#numbers-table button", "Enter", "Escape", "Escape")
    keys.next_step()
    keys.to(".map", "Enter")
    keys.to("#numbers-table button")
    at = keys.tab.evaluate("heads[0][0].row.indexOf(Math.max(...heads[0][0].row))")
    if at > 0:  # below the class token
        keys.press(*["ArrowDown"] * (1 + (at - 1) // 4), *["ArrowRight"] * ((at - 1) % 4))
    keys.press("Enter", "Escape", "Escape")
    keys.next_step()


def steps_9_to_13(keys: Keys) -> None:
    """Heads and the layer, off and on; the logit of the 7."""
    layer = ".layer:first-child p input"
    head_0, head_1 = (f".layer:first-child figure:nth-of-type({n}) input" for n in (1, 2))
    for boxes in ([head_1], [head_1, head_0], [layer], [layer, head_0]):
        for box in boxes:
            keys.to(box, "Space")
        keys.next_step()
    keys.to("#classes button", *["ArrowDown"] * 7, "ArrowRight", "Enter", "Escape")
    keys.next_step()


def test_the_way_through_both_pages_by_keyboard_alone(opened: Callable[..., Any]) -> None:
    tab = opened(GALLERY / "index.html")
    keys = Keys(tab)
    keys.to("#tour-start", "Enter")
    tab.wait_for_function("() => document.activeElement.id === 'tour-smallest'")
    keys.press("Enter")
    ready(tab, "vit_mnist_p7")
    steps_1_to_5(keys)
    steps_6_to_8(keys)
    steps_9_to_13(keys)
    assert tab.locator("#tour-title").inner_text().startswith("14 of 14")
    own = tab.evaluate("[...shown]")
    keys.to("#picture", *["ArrowUp"] * 28, *["ArrowLeft"] * 28, *["ArrowDown"] * 5, "Space")
    for key in ("ArrowRight", "ArrowLeft", "ArrowRight"):  # along the top stroke
        keys.press(*[key] * 17, "ArrowDown")
    keys.press("Space")
    until_told(tab)
    keys.to("#tour-on", "Enter")
    same_picture_in_the_larger_model(tab, own)


def test_why_this_answer_and_not_another(opened: Callable[..., Any], page: Any) -> None:
    """Found beside the answer, for every pair: leaving out is computed, relevance says why not."""
    page.emulate_media(reduced_motion="reduce")
    tab, model = opened(), load_model("vit_mnist_p7")
    answer, other = tab.evaluate("pair()")
    why = tab.locator("#why-not")
    assert why.inner_text() == f"Why {answer} and not {other}?"
    why.focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "other"
    assert 0 <= tab.locator("#why-title").bounding_box()["y"] < 200, "the section is seen"
    third, fourth = [one for one in range(10) if one not in (answer, other)][:2]
    name = tab.locator("#classes th button")
    tab.locator("#classes .bar").nth(fourth).click()
    assert why.inner_text() == f"Why {answer} and not {fourth}?", "by a click on its bar"
    assert tab.evaluate("$('other').value") == str(fourth)
    name.nth(answer).click()
    assert why.inner_text() == f"Why {answer} and not {other}?", "not beside itself"
    name.nth(third).focus()
    tab.keyboard.press("Enter")
    assert why.inner_text() == f"Why {answer} and not {third}?", "by its name, and by keyboard"
    pressed = name.evaluate_all("all => all.map(one => one.ariaPressed)")
    assert pressed.index("true") == third
    assert pressed.count("true") == 1
    tab.wait_for_function(DONE, timeout=60_000)
    tab.wait_for_function("() => !$('effect-text').textContent.includes('runs done')")
    image = shown_image(tab, model)
    with torch.no_grad():
        full = model(image)[0]
        kept = [[t for t in range(17) if t != left] for left in range(1, 17)]
        without_one = torch.stack([without(model, image, tokens)[0] for tokens in kept])
    expected = (full - without_one)[:, answer] - (full - without_one)[:, third]
    assert near(torch.tensor(tab.evaluate("[...drawnValues.effect]")), expected, 2e-5)
    assert tab.locator("#effect").is_visible()
    told = tab.locator("#effect-text").inner_text()
    assert told.startswith(f"Why {answer} rather than {third}: ")
    reason = tab.locator("#relevance-text").inner_text()
    assert f"one pair only, {answer} rather than {other}" in reason
    assert reason.count(".") == 1, "in one sentence"
