"""CHRONO_STORAGE_URL: what is wrong with it is told before the first run needs it."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from runs.storage import build


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://x", "scheme 'ftp' is not file or s3"),
        ("/var/lib/chrono", "scheme '' is not file or s3"),
        ("file://x/y", "use file:///absolute/path"),
        ("s3://[x", "Invalid IPv6 URL"),
        ("s3:///x", "s3:// needs a bucket name"),
        ("s3://x?endpoint_url=y", "endpoint_url is an http:// or https:// URL, not 'y'"),
        (
            "s3://x?addressing_style=y",
            "addressing_style is one of path, virtual, auto, not 'y'",
        ),
        ("s3://x?acl=y", "unknown option 'acl'"),
    ],
)
def test_a_bad_url_is_told(url: str, told: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        build(url)
    assert str(refused.value) == f"CHRONO_STORAGE_URL: {told}"
