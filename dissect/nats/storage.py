"""Remote storage: the file system of a URI (`s3a://bucket/folder`), through pyarrow.

`s3a://`, `s3n://` and `s3://` are the same. Their endpoint, region and credentials are those of the
environment, as every tool for S3 reads it (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION,
AWS_ACCESS_KEY_ID ...), or of a Spark session (`spark.hadoop.fs.s3a.endpoint` ...), which has priority. For
Azure's storage (`abfs://container@account/folder`), the variables are those of its command line
(AZURE_STORAGE_KEY, AZURE_STORAGE_SERVICE_ENDPOINT); without them, its library looks for credentials. Only
`file:` URIs have escapes (`%20`): elsewhere each character of a name stands for itself, as for Hadoop and the
tools for S3.

pyarrow (extra `spark`) is imported when the first URI is used.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from .errors import CaptureError, imported, reason_of

if TYPE_CHECKING:
    from pyarrow import fs

_URI = re.compile(r"([a-z][a-z0-9+.-]+:/|file:)/", re.IGNORECASE)  # Hadoop writes file:/x
_LOGIN = re.compile(r"//[^/@]*:[^/@]*@")  # not the container in abfs://container@account
# Hadoop's name of a URI scheme -> pyarrow's name.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}
# File systems in which a file is stored as a whole once it is closed, and that have no folders.
_OBJECTS = ("s3", "gcs", "abfs")

_OF_HADOOP = {
    "AWS_ENDPOINT_URL_S3": "fs.s3a.endpoint",
    "AWS_REGION": "fs.s3a.endpoint.region",
    "AWS_ACCESS_KEY_ID": "fs.s3a.access.key",
    "AWS_SECRET_ACCESS_KEY": "fs.s3a.secret.key",
    "AWS_SESSION_TOKEN": "fs.s3a.session.token",
}
_KEY_PAIR = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_OF_AZURE = "AZURE_STORAGE_KEY", "AZURE_STORAGE_SERVICE_ENDPOINT"
VARIABLES = (*_OF_HADOOP, "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", *_OF_AZURE)
"""The variables of the environment that say where S3 and Azure's storage are, and who may use them."""

_AMAZON = "s3.amazonaws.com"


class S3Access(NamedTuple):
    """Where S3 is, and who uses it. What is None AWS's own library finds, such as a profile or the role of a
    machine."""

    endpoint: str | None
    region: str | None
    access_key: str | None
    secret_key: str | None
    session_token: str | None


class AzureAccess(NamedTuple):
    """The key of an account of Azure's storage, and its endpoint. What is None its own library finds."""

    key: str | None
    endpoint: str | None


# Of the Spark session, in place of what the environment says.
_session: dict[str, str] = {}


def is_uri(path: str) -> bool:
    """Whether a path is a URI (`s3a://bucket/file`), and not a local path."""
    return _URI.match(path) is not None


def masked(text: str) -> str:
    """A text without the passwords of the URIs in it."""
    return _LOGIN.sub("//***@", text)


def elsewhere(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path of the file in it. Raises CaptureError."""
    if _LOGIN.search(path):
        raise CaptureError(
            masked(path),
            "a URI with a password would be shown in messages and summaries",
            "leave it out, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    scheme, _, rest = path.partition(":")
    scheme = _SCHEMES.get(scheme.lower(), scheme.lower())
    host, slash, name = rest.removeprefix("//").partition("/")
    fs = imported("pyarrow.fs", "spark", "pyarrow")
    try:
        if scheme == "file":
            system, root = fs.FileSystem.from_uri(f"file:{rest}")
            return system, str(root)
        is_azure = scheme in ("abfs", "abfss")
        system, root = _connected(scheme, host, azure_access() if is_azure else s3_access())
    except (OSError, ValueError) as error:
        raise CaptureError(path, f"cannot be reached ({reason_of(error)})") from error
    return system, f"{root.rstrip('/')}{slash}{name}".rstrip("/") or root


@lru_cache(maxsize=64)  # a file is opened many times, and connecting is slow
def _connected(scheme: str, host: str, access: S3Access | AzureAccess) -> tuple[fs.FileSystem, str]:
    """The file system of a scheme and a bucket or host, and the path of its root."""
    from pyarrow import fs

    if isinstance(access, AzureAccess):
        container, _, account = host.rpartition("@")
        if container and any(access):
            arguments = _azure_arguments(access)
            return fs.AzureFileSystem(account.partition(".")[0], **arguments), container
    elif scheme == "s3":
        return fs.S3FileSystem(**_arguments(host, access)), host
    system, root = fs.FileSystem.from_uri(f"{scheme}://{host}/")
    return system, str(root)


def _arguments(bucket: str, access: S3Access) -> dict[str, str]:
    """The arguments of pyarrow's S3 file system."""
    from pyarrow import fs

    keys = {
        "access_key": access.access_key,
        "secret_key": access.secret_key,
        "session_token": access.session_token,
    }
    found = {name: value for name, value in keys.items() if value}
    if access.endpoint:
        scheme, _, found["endpoint_override"] = access.endpoint.rstrip("/").rpartition("://")
        found["scheme"] = scheme or "https"
    if access.region or not access.endpoint:
        found["region"] = access.region or fs.resolve_s3_region(bucket)
    return found


def _azure_arguments(access: AzureAccess) -> dict[str, str]:
    """The arguments of pyarrow's file system of Azure. Raises ValueError."""
    found = {}
    if access.key:
        try:
            b64decode(access.key, validate=True)
        except ValueError:  # later, pyarrow would report it as an unknown error
            raise ValueError("AZURE_STORAGE_KEY is not base64") from None
        found["account_key"] = access.key
    if access.endpoint:
        scheme, _, authority = access.endpoint.rstrip("/").rpartition("://")
        for kind in ("blob", "dfs"):
            found[f"{kind}_storage_authority"] = authority.partition("/")[0]
            found[f"{kind}_storage_scheme"] = scheme or "https"
    return found


def s3_access() -> S3Access:
    """What the environment and the session say of S3."""
    known = environment()
    return S3Access(
        endpoint=known.get("AWS_ENDPOINT_URL_S3") or known.get("AWS_ENDPOINT_URL"),
        region=known.get("AWS_REGION") or known.get("AWS_DEFAULT_REGION"),
        access_key=known.get("AWS_ACCESS_KEY_ID"),
        secret_key=known.get("AWS_SECRET_ACCESS_KEY"),
        session_token=known.get("AWS_SESSION_TOKEN"),
    )


def azure_access() -> AzureAccess:
    """What the environment says of Azure's storage."""
    return AzureAccess(*map(environment().get, _OF_AZURE))


def environment() -> dict[str, str]:
    """The settings of S3, by the names of their environment variables: of the environment, and of the session
    in place of these."""
    found = {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
    if any(name in _session for name in _KEY_PAIR):  # one key pair, not halves of two
        found = {name: value for name, value in found.items() if name not in _KEY_PAIR}
    return {**found, **_session}


def use_settings(hadoop: Callable[[str], str | None]) -> None:
    """Reads the settings of S3 of a Spark session, by their names in Hadoop, for all later calls."""
    found = {name: value for name, key in _OF_HADOOP.items() if (value := hadoop(key))}
    endpoint = found.pop("AWS_ENDPOINT_URL_S3", _AMAZON)
    if not endpoint.endswith(_AMAZON):
        plain = "://" not in endpoint and hadoop("fs.s3a.connection.ssl.enabled") == "false"
        found["AWS_ENDPOINT_URL_S3"] = f"http://{endpoint}" if plain else endpoint
    _session.clear()
    _session.update(found)


def has_folders(system: fs.FileSystem) -> bool:
    """Whether a folder has to be made before a file is written into it."""
    return system.type_name not in _OBJECTS


def listed(system: fs.FileSystem, folder: str, recursive: bool = False) -> list[fs.FileInfo]:
    """What is in a folder; nothing if there is none. Raises OSError.

    In Google's storage folders are parts of names, and pyarrow does not list them: they are added.
    """
    library = imported("pyarrow.fs", "spark", "pyarrow")
    is_google = system.type_name == "gcs"
    selector = library.FileSelector(folder, recursive=recursive or is_google, allow_not_found=True)
    found: list[fs.FileInfo] = system.get_file_info(selector)
    if not is_google:
        return found
    ends = ((one.path, end.start()) for one in found for end in re.finditer("/", one.path))
    folders = {path[:end] for path, end in ends if end > len(folder)}
    folders.difference_update(one.path for one in found)
    every = found + [library.FileInfo(path, library.FileType.Directory) for path in sorted(folders)]
    return [one for one in every if recursive or "/" not in one.path[len(folder) + 1 :]]


def remove_folder(system: fs.FileSystem, folder: str) -> None:
    """Removes a folder and what is in it. Raises OSError."""
    if system.type_name == "gcs":  # there may be no object of the folder itself
        system.delete_dir_contents(folder, missing_dir_ok=True)
    else:
        system.delete_dir(folder)


def move_file(system: fs.FileSystem, source: str, target: str) -> None:
    """Moves a file, which in an object storage is a copy. Raises OSError."""
    try:
        system.move(source, target)
    except NotImplementedError:  # pyarrow 26: Azure's storage without a hierarchical namespace
        system.copy_file(source, target)
        system.delete_file(source)


def write_whole(system: fs.FileSystem, path: str, content: bytes) -> None:
    """Writes or replaces a file, which is then there as a whole or not at all. Raises OSError."""
    if not has_folders(system):
        _write(system, path, content)
        return
    folder, _, name = path.rpartition("/")
    system.create_dir(folder, recursive=True)
    beside = f"{folder}/.{name}.{uuid4().hex}"
    _write(system, beside, content)
    if system.type_name == "hdfs" and system.get_file_info(path).is_file:  # it renames onto nothing
        system.delete_file(path)
    system.move(beside, path)


def _write(system: fs.FileSystem, path: str, content: bytes) -> None:
    with system.open_output_stream(path) as output:
        output.write(content)
