"""What messages say of a missing extra: whether its library is not there or broken, and the command that
installs it, which works where it is read."""

from __future__ import annotations

__all__ = ["is_missing", "pip_install"]

_NAME = "natsync"


def is_missing(error: ImportError, module: str) -> bool:
    """Whether `module` could not be imported because it, or a package around it, is not there. If not, it is
    there, and its own import failed: `error` says why."""
    return isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")


def pip_install(extra: str) -> str:
    """Returns the pip command that installs an extra beside this package: from the clone that it runs in, or
    the folder or file that it was installed from, else by its name."""
    import shlex  # only messages need this

    return f"pip install {shlex.quote(f'{_clone() or _source() or _NAME}[{extra}]')}"


def _clone() -> str:
    import os

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.path.isfile(os.path.join(folder, "setup.cfg")):
        return ""
    return "." if os.path.realpath(folder) == os.path.realpath(os.curdir) else folder


def _source() -> str:
    """What pip installed, from the record that it keeps unless the package came from an index:
    https://packaging.python.org/en/latest/specifications/direct-url/"""
    import json
    from importlib import metadata  # takes a tenth of a second
    from urllib.parse import unquote, urlsplit

    try:
        record = metadata.distribution(_NAME).read_text("direct_url.json")
        url = urlsplit(json.loads(record or "{}")["url"])
    except (metadata.PackageNotFoundError, KeyError, TypeError, ValueError):
        return ""
    return unquote(url.path) if url.scheme == "file" else ""
