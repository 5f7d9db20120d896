"""Team tokens: who calls the API, and what the token's role lets it do."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from chronoproject.sql import load
from jobs.choices import TokenRole
from jobs.models import ApiToken, Team

if TYPE_CHECKING:  # DRF's views import this module while they are imported themselves
    from rest_framework.views import APIView

SQL = load(Path(__file__).parent / "sql")
TOKEN_PREFIX = "chrono_"  # noqa: S105 - what tokens begin with, so that leaked ones are recognised
PREFIX_SHOWN = 12
NOTED_EACH = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Principal:
    """A token's team, for the length of a request."""

    team: Team
    token: ApiToken
    is_authenticated: bool = True

    @property
    def actor(self) -> str:
        """How versions and the audit name who did it."""
        return f"{self.token.name[:180]} ({self.token.prefix})"


def new_token_text() -> str:
    """Return a fresh token; only its hash is ever kept."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def token_hash(text: str) -> str:
    """Return what is kept of a token, and looked up by."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def token_create(
    team: Team, name: str, *, role: TokenRole = TokenRole.EDITOR, text: str = ""
) -> tuple[ApiToken, str]:
    """Make a token of the team; return its row and its text, which cannot be read again."""
    text = text or new_token_text()
    token = ApiToken.objects.create(
        team=team,
        name=name,
        role=role,
        prefix=text[:PREFIX_SHOWN],
        token_hash=token_hash(text),
    )
    return token, text


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer <token>`."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the principal and its token; AuthenticationFailed for what is no live token."""
        scheme, _, text = get_authorization_header(request).decode("latin-1").partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer" or not text.strip():
            raise AuthenticationFailed("Authorization must be: Bearer <token>.")
        token = self._find(text.strip())
        if token is None:
            raise AuthenticationFailed("The token is not known, or was revoked.")
        return Principal(token.team, token), token

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge of a 401."""
        return 'Bearer realm="chrono"'

    def _find(self, text: str) -> ApiToken | None:
        is_stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=Now() - NOTED_EACH)
        token = (
            ApiToken.objects.select_related("team")
            .annotate(is_stale=ExpressionWrapper(is_stale, output_field=BooleanField()))
            .filter(token_hash=token_hash(text), revoked_at__isnull=True)
            .first()
        )
        if token is not None and token.is_stale:
            SQL["mark_token_used"].run(token_id=token.token_id)
        return token


class TeamPermission(BasePermission):
    """A viewer's token reads; an editor's also writes."""

    message = "The token's role may only read."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Tell whether the principal may use this method."""
        principal: object = request.user
        if not isinstance(principal, Principal):
            return False
        return request.method in SAFE_METHODS or principal.token.role == TokenRole.EDITOR
