"""The object store that logs go to, through Django's storage API: a folder or an S3 bucket."""

import logging
import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, SuspiciousFileOperation
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, Storage

logger = logging.getLogger(__name__)

# One try each. With the second that botocore waits for "100 Continue", a run is delayed by 5 s.
CONNECT_TIMEOUT_SEC, READ_TIMEOUT_SEC = 1.5, 2.5
BREAK_SEC = 15.0
ADDRESSING_STYLES = ("path", "virtual", "auto")
# Commands run as another user where the worker is root: they read nobody's logs.
FILE_MODE, FOLDER_MODE = 0o640, 0o750

Put = Literal["stored", "spooled", "dropped"]


@dataclass(frozen=True, slots=True)
class Backend:
    """A store, and the exceptions by which it says that it is not there."""

    storage: Storage
    errors: tuple[type[Exception], ...]


def build(url: str) -> Backend:
    """Return the store of a CHRONO_STORAGE_URL. Raises ImproperlyConfigured."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ImproperlyConfigured(f"CHRONO_STORAGE_URL: {error}") from error
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise ImproperlyConfigured("CHRONO_STORAGE_URL: use file:///absolute/path")
        storage = FileSystemStorage(
            location=unquote(parts.path),
            allow_overwrite=True,
            file_permissions_mode=FILE_MODE,
            directory_permissions_mode=FOLDER_MODE,
        )
        return Backend(storage, (OSError, SuspiciousFileOperation))
    if parts.scheme == "s3":
        return _s3(url)
    raise ImproperlyConfigured(f"CHRONO_STORAGE_URL: scheme {parts.scheme!r} is not file or s3")


def _s3(url: str) -> Backend:
    # Imported here: a worker on a folder need not carry boto3's 30 MB in each child.
    from boto3.exceptions import Boto3Error  # type: ignore[import-untyped]
    from boto3.s3.transfer import TransferConfig  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
    from storages.backends.s3 import S3Storage

    parts = urlsplit(url)
    options = _s3_options(parts)
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_SEC,
        read_timeout=READ_TIMEOUT_SEC,
        retries={"total_max_attempts": 1},
        s3={"addressing_style": options.get("addressing_style", "path")},
        # Stores other than Amazon's refuse the checksums that boto3 now adds by itself.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    storage = S3Storage(
        bucket_name=parts.hostname,
        location=parts.path.strip("/"),
        endpoint_url=options.get("endpoint_url"),
        region_name=options.get("region", "us-east-1"),
        file_overwrite=True,
        client_config=config,
        transfer_config=TransferConfig(use_threads=False),
        **_credentials(parts),
    )
    return Backend(storage, (OSError, Boto3Error, BotoCoreError, ClientError))


def _s3_options(parts: SplitResult) -> dict[str, str]:
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    unknown = set(options) - {"endpoint_url", "region", "addressing_style"}
    style, endpoint = options.get("addressing_style"), options.get("endpoint_url")
    fault = ""
    if not parts.hostname:
        fault = "s3:// needs a bucket name"
    elif unknown:
        fault = f"unknown option {min(unknown)!r}"
    elif style and style not in ADDRESSING_STYLES:
        fault = f"addressing_style is one of {', '.join(ADDRESSING_STYLES)}, not {style!r}"
    elif endpoint and not endpoint.startswith(("http://", "https://")):
        fault = f"endpoint_url is an http:// or https:// URL, not {endpoint!r}"
    if fault:
        raise ImproperlyConfigured(f"CHRONO_STORAGE_URL: {fault}")
    return options


def _credentials(parts: SplitResult) -> dict[str, str]:
    """Return what stands in the URL; without, boto3 looks where it always does."""
    if not (parts.username and parts.password):
        return {}
    return {"access_key": unquote(parts.username), "secret_key": unquote(parts.password)}


@lru_cache(maxsize=2)
def _backend_of(pid: int, url: str) -> Backend:
    return build(url)


def backend() -> Backend:
    """Return the configured store; one a process, for a fork must not share connections."""
    return _backend_of(os.getpid(), settings.CHRONO_STORAGE_URL)


class ChunkStore:
    """Puts log objects into the store, or into the spool while the store is not there."""

    def __init__(self, store: Backend, spool: Path, *, break_sec: float = BREAK_SEC) -> None:
        self.store = store
        self.spool = spool
        self.break_sec = break_sec
        self._closed_until = 0.0

    def put(self, key: str, data: bytes) -> Put:
        """Keep `data` under `key`; never raises: a log must not fail its run."""
        if time.monotonic() >= self._closed_until:
            try:
                self.store.storage.save(key, ContentFile(data))
            except self.store.errors as error:
                # The next ones do not wait for it again: they go to the spool for a while.
                self._closed_until = time.monotonic() + self.break_sec
                logger.warning("log store: %s; output goes to the spool", error)
            else:
                return "stored"
        try:
            write_spool(self.spool / key, data)
        except OSError as error:
            logger.warning("log spool: %s; %d bytes of output are lost", error, len(data))
            return "dropped"
        return "spooled"


def write_spool(path: Path, data: bytes) -> None:
    """Write a spool file; it appears under its name only when it is whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            _write_part(part, data)
        except FileNotFoundError:  # the uploader has just removed the folder that it emptied
            _write_part(part, data)
        part.rename(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _write_part(part: Path, data: bytes) -> None:
    part.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def spooled(spool: Path) -> list[Path]:
    """Return the whole files in the spool, oldest day first."""
    return sorted(path for path in spool.rglob("*.log") if not path.name.startswith("."))


def upload_spool(store: Backend, spool: Path, *, limit: int = 1000) -> int:
    """Carry spooled objects into the store and return how many; stops where the store refuses."""
    done = 0
    for path in spooled(spool)[:limit]:
        try:
            data = path.read_bytes()
            store.storage.save(path.relative_to(spool).as_posix(), ContentFile(data))
        except FileNotFoundError:
            continue  # another worker of this host was first
        except store.errors as error:
            logger.info("log store: %s; %s stays in the spool", error, path.name)
            break
        path.unlink(missing_ok=True)
        _remove_empty(path.parent, spool)
        done += 1
    return done


def _remove_empty(folder: Path, top: Path) -> None:
    while folder != top:
        try:
            folder.rmdir()
        except OSError:
            return  # not empty: something else waits there
        folder = folder.parent
