"""``my_vit.py`` in Colab, where each notebook runs on a machine of its own, which forgets its
files."""

import os
import sys
from pathlib import Path

from .keeper import FILE, path

DRIVE = Path("/content/drive")


def colab(folder: str = "") -> None:
    """In Colab, say where ``my_vit.py`` is kept; elsewhere do nothing.

    Args:
        folder: of your Google Drive, where everything that is written then goes; left out,
            ``/content``, where an uploaded ``my_vit.py`` lies.
    """
    if "google.colab" not in sys.modules:
        return
    problem = ""
    if folder.strip("/ "):
        try:
            # type: ignore[import-untyped, import-not-found, unused-ignore]
            from google.colab import drive

            drive.mount(str(DRIVE))
            place = DRIVE / "MyDrive" / folder.strip("/ ")
            place.mkdir(parents=True, exist_ok=True)
            os.environ["MNIST_VIT_OUT"] = str(place)
            print(
                f"{FILE}: {'used from' if path().is_file() else 'will be kept in'} {place}, which"
                " lasts"
            )
            return
        except Exception as error:  # permission refused, no account, ...
            problem = f"Drive cannot be used ({str(error) or type(error).__name__}); "
    here = (
        "the one you uploaded is used"
        if path().is_file()
        else "none here yet; upload yours (the folder on the left)"
    )
    print(
        f"{FILE}: {problem}{here}. This machine forgets its files when you close it:"
        f" check.download() saves {FILE} to your computer, and a folder of your Drive, named in the"
        " setup cell, lasts"
    )


def download() -> None:
    """In Colab, save ``my_vit.py`` to your computer; elsewhere print where it is."""
    if not path().is_file():
        print(
            f"{FILE}: there is none in {path().parent} yet; the first piece that is right makes it"
        )
    elif "google.colab" in sys.modules:
        # type: ignore[import-untyped, import-not-found, unused-ignore]
        from google.colab import files

        files.download(str(path()))
    else:
        print(f"{FILE}: it is on this computer, {path()}")
