"""Files as a person names them: read where they are files, and told where they are something else."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 1 << 30
"""Of a file that is read as a whole."""


def is_file(path: Path) -> bool:
    """Whether there is a file; no for a path that cannot be one."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or with a NUL in it
        return False


def is_folder(path: Path) -> bool:
    """Whether there is a folder; no for a path that cannot be one."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def opened(path: Path) -> BinaryIO:
    """A file, open for reading. Raises OSError, also for a pipe or a device: reading those may never end."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # opening a folder says so itself
        raise OSError(errno.EINVAL, "is a pipe or a device, not a file", str(path))
    return path.open("rb")


def content(path: Path, most: int = MOST_BYTES) -> bytes:
    """What is in a file. Raises OSError, also for what is no file, or larger than so many bytes."""
    with opened(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"is larger than {most} bytes", str(path))
        return file.read()


def no_file(path: Path) -> str:
    """Why there is no file at a path, in words; empty where nothing is there."""
    try:
        path.stat()
    except FileNotFoundError:
        return "is a link to something that is not there" if path.is_symlink() else ""
    except (NotADirectoryError, ValueError):  # or with a NUL in it
        return ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "is a folder, not a config" if path.is_dir() else "is a pipe or a device; a config is a file"
