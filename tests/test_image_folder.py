"""A folder of whatever people have: what is a picture is read, what is not is named, and nothing
crashes."""

import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import assert_says
from javascript import data_of
from PIL import Image

import mnist_vit
from mnist_vit.__main__ import main
from mnist_vit.data import load_folder
from mnist_vit.errors import DataError


def ramp(mode: str = "L", size: int = 40) -> Image.Image:
    """Dark on the left, light on the right."""
    values = np.linspace(20, 230, size).round().astype(np.uint8)
    return Image.fromarray(np.tile(values, (size, 1))).convert(mode)


def plain_folder(folder: Path, classes: tuple[str, ...] = ("a", "b"), n: int = 2) -> Path:
    for name in classes:
        (folder / name).mkdir(parents=True)
        for i in range(n):
            ramp("RGB").save(folder / name / f"{i}.png")
    return folder


def palette(path: Path) -> None:
    ramp("RGB").quantize(64).save(path)


def see_through(path: Path) -> None:
    picture = ramp("RGBA")
    picture.putalpha(Image.new("L", picture.size, 255))
    picture.paste((0, 0, 0, 0), (20, 0, 40, 40))  # black, but not to be seen: white paper
    picture.save(path)


def turned(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera lay on its side: to be turned by 90 degrees to the right
    ramp("RGB").transpose(Image.Transpose.ROTATE_90).save(path, exif=exif, quality=95)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        (
            "16 bits.png",
            lambda path: Image.fromarray(np.asarray(ramp()).astype(np.uint16) * 257).save(path),
        ),
        ("palette.png", palette),
        ("grey with alpha.png", lambda path: ramp("LA").save(path)),
        ("see through.png", see_through),
        ("four inks.jpg", lambda path: ramp("CMYK").save(path, quality=95)),
        ("from a phone.jpg", turned),
        ("ÿ 数字 \N{DIGIT SEVEN}.bmp", lambda path: ramp("RGB").save(path)),
        (
            "with previews.jpg",
            lambda path: ramp().save(path, format="MPO", save_all=True, append_images=[ramp()] * 2),
        ),
        ("no ending", lambda path: ramp("RGB").save(path, format="PNG")),
        ("wide.png", lambda path: ramp("RGB").resize((400, 40)).save(path)),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_kind_of_picture_looks_as_it_does_to_a_person(
    name: str, write: Callable[[Path], None], channels: int, tmp_path: Path
) -> None:
    plain_folder(tmp_path)
    write(tmp_path / "b" / name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load_folder(tmp_path, image_size=20, channels=channels)
    (position,) = [i for i, p in enumerate(sorted((tmp_path / "b").iterdir())) if p.name == name]
    columns = data.images[2 + position].float().mean(dim=(0, 1))
    expected = torch.linspace(20, 230, 20)
    if name == "see through.png":
        expected[10:] = 255
    elif name == "wide.png":
        expected = torch.linspace(114, 136, 20)
    torch.testing.assert_close(columns, expected, atol=20, rtol=0)


def test_black_and_white(tmp_path: Path) -> None:
    plain_folder(tmp_path)
    ramp().point(lambda value: 255 * (value > 125)).convert("1").save(tmp_path / "a" / "0.png")
    columns = load_folder(tmp_path, image_size=20).images[0].float().mean(dim=(0, 1))
    assert columns[:9].max() == 0
    assert columns[11:].min() == 255


NOTHING = "PNG JPEG WebP BMP"  # what is needed
MORE = [ramp().rotate(90), ramp().rotate(180)]  # frames of an animation


def half(path: Path) -> None:
    Image.effect_noise((200, 200), 50).save(path)
    path.write_bytes(path.read_bytes()[:5000])


def strange_palette(path: Path) -> None:
    """Colour 200 of a palette of 4 is see-through: it loads, and cannot be converted."""
    ramp("RGB").quantize(4).save(path)
    content = path.read_bytes()
    chunk = b"tRNS" + bytes(300)
    chunk = (300).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    at = content.index(b"IDAT") - 4
    path.write_bytes(content[:at] + chunk + content[at:])


def code(path: Path) -> None:
    path.write_text(f"import pathlib\npathlib.Path({str(path)!r}).with_suffix('.ran').touch()\n")


@pytest.mark.parametrize(
    ("name", "write", "reason"),
    [
        ("words.png", lambda p: p.write_text("no picture"), NOTHING),
        ("empty.jpg", lambda p: p.touch(), NOTHING),
        ("half.png", half, NOTHING),
        (
            "moves.png",
            lambda p: ramp().save(p, save_all=True, append_images=MORE),
            "animation 3",
        ),
        (
            "moves.webp",
            lambda p: ramp().save(p, save_all=True, append_images=MORE),
            "animation 3",
        ),
        (
            "huge.png",
            lambda p: Image.new("1", (20_000, 20_000)).save(p),
            "89,478,485 pixels",
        ),
        # Pillow only warns of this one
        (
            "large.png",
            lambda p: Image.new("1", (20_000, 5_000)).save(p),
            "89,478,485 pixels",
        ),
        ("palette that is none.png", strange_palette, NOTHING),
        ("a.tiff", lambda p: ramp().save(p), NOTHING),
        ("a.gif", palette, NOTHING),
        ("run.py", code, NOTHING),
        # Pillow knows it whatever it is called, and starts a program for it
        ("post\x1b[31mscript.png", lambda p: ramp("RGB").save(p, format="EPS"), NOTHING),
    ],
)
def test_what_is_no_picture_is_left_out_and_named_and_starts_no_program(
    name: str,
    write: Callable,
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "subprocess.Popen.__init__", lambda *_, **__: pytest.fail("a program was started")
    )
    plain_folder(tmp_path / "data")
    bad = tmp_path / "data" / "a" / name
    write(bad)
    with pytest.warns(UserWarning, match="skipped") as told:
        data = load_folder(tmp_path / "data")
    assert len(data) == 4
    (warning,) = [w for w in told if w.category is UserWarning]
    shown = name.replace("\x1b", "\\x1b")  # the terminal is not given orders
    assert_says(str(warning.message), f"{tmp_path / 'data'} skipped a/{shown} {reason}")
    assert "\x1b" not in str(warning.message)
    assert not list(tmp_path.rglob("*.ran"))
    assert main(["predict", str(bad)]) == 2  # and alone it is a sentence
    told_alone = capsys.readouterr().err
    assert_says(told_alone, reason)
    assert told_alone.count("\n") == 1
    assert "\x1b" not in told_alone


def test_names_of_classes_are_printable(tmp_path: Path) -> None:
    data = load_folder(plain_folder(tmp_path, ("a\x1b[2J", "new\nline", "Bäume")))
    assert data.classes == ("Bäume", "a\\x1b[2J", "new\\nline")
    assert len(data) == 6


def test_summary_of_many_is_short(tmp_path: Path) -> None:
    plain_folder(tmp_path)
    for i in range(30):
        (tmp_path / "a" / f"x{i:02d}.png").touch()
    with pytest.warns(UserWarning, match=r"x00\.png .*x04\.png .*, and 25 more$"):
        assert len(load_folder(tmp_path)) == 4


def test_what_lies_about_is_noted_or_passed_over(tmp_path: Path) -> None:
    plain_folder(tmp_path)
    (tmp_path / ".git" / "deep").mkdir(parents=True)
    (tmp_path / "a" / ".DS_Store").write_text("hidden")
    (tmp_path / "read me.txt").write_text("about")
    (tmp_path / "empty").mkdir()
    (tmp_path / "b" / "more").mkdir()
    ramp().save(tmp_path / "b" / "more" / "deep.png")
    (tmp_path / "a" / "loop.png").symlink_to(tmp_path / "a" / "loop.png")
    (tmp_path / "b" / "round").symlink_to(tmp_path)
    with pytest.warns(UserWarning, match="skipped") as told:
        data = load_folder(tmp_path)
    assert data.classes == ("a", "b")
    assert len(data) == 4
    message = str(told[0].message)
    assert_says(message, "b/: 2 empty/ files outside 1")
    assert "DS_Store" not in message


@pytest.mark.parametrize(
    ("classes", "n", "split", "said"),
    [
        ((), 0, "all", "data.* 0.*two"),
        (("one",), 3, "all", "data.* 1.*two"),
        (("a", "b"), 0, "all", "data.* 0.*two"),
        (("a", "b"), 9, "validation", "data.* few .*validation"),
        (("a", "b"), 2, "test", '"test".* all, train, validation'),
    ],
)
def test_folders_that_cannot_be_used(
    classes: tuple, n: int, split: str, said: str, tmp_path: Path
) -> None:
    plain_folder(tmp_path / "data", classes, n).mkdir(exist_ok=True)
    with pytest.raises(DataError, match=said):
        load_folder(tmp_path / "data", split)


@pytest.mark.parametrize(("model", "mode"), [("vit_cifar10", "RGB"), ("vit_mnist_p7", "L")])
def test_from_a_folder_to_a_model_and_its_attention(
    model: str, mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three classes, none of them a digit: the model gets the folder's classes, the folder the
    model's size."""
    folder = plain_folder(tmp_path / "my pictures", ("Bäume", "dark", "<light>"), n=0)
    for name, colour in (
        ("Bäume", (20, 120, 20)),
        ("dark", (9, 9, 9)),
        ("<light>", (240, 240, 240)),
    ):
        for i in range(20):
            Image.new("RGB", (50, 40 + i), colour).convert(mode).save(folder / name / f"{i}.png")
    (folder / "dark" / "broken.png").write_bytes(b"broken")
    saved = tmp_path / "mine.pth"
    train = [
        "train",
        model,
        "--data",
        str(folder),
        "--epochs",
        "1",
        "--batch-size",
        "9",
        "--save",
        str(saved),
    ]
    assert main(train) == 0, capsys.readouterr().err
    told = capsys.readouterr()
    assert "54 images of" in told.out
    assert "skipped: dark/broken.png" in told.err
    assert main(["evaluate", str(saved), "--data", str(folder), "--split", "all"]) == 0
    assert "60 images of" in capsys.readouterr().out
    out = tmp_path / "maps"
    assert (
        main(
            ["attention", str(saved), "--data", str(folder), "--per-class", "1", "--out", str(out)]
        )
        == 0
    )
    assert "<light>_0" in [one["name"] for one in data_of(out / "index.html")["examples"]]
    assert "<light>" not in (out / "index.html").read_text()
    assert (out / "Bäume_2" / "layer_0_head_0.png").is_file()
    assert main(["predict", str(folder / "dark" / "1.png"), str(saved)]) == 0


def test_the_next_step_after_a_training_names_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it is printed, it runs, and evaluates images that were not trained on."""
    folder = plain_folder(tmp_path / "my pictures", n=20)
    model = mnist_vit.VisionTransformer(32, 8, 1, 2, 16, 32, num_classes=2)
    mnist_vit.train(model, folder, epochs=1, batch_size=9, run_dir=tmp_path / "run")
    _, _, step = capsys.readouterr().out.partition("; next: ")
    assert f"data={str(folder)!r}" in step
    found = eval(step.strip(), {"mnist_vit": mnist_vit, "model": model})
    assert 0 < found.total < 40
    images = load_folder(folder, "train", 32, 3)
    mnist_vit.train(model, images, epochs=1, batch_size=9, run_dir=tmp_path / "again")
    assert capsys.readouterr().out.strip().endswith("next: mnist_vit.evaluate(model, data=…)")
