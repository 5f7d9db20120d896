"""What every view of the API shares: JSON in, JSON out, the team behind the token."""

import codecs
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from django.http import HttpResponse, JsonResponse
from rest_framework.exceptions import ParseError
from rest_framework.negotiation import BaseContentNegotiation, DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.views import APIView

from jobs.auth import Principal
from jobs.body import json_object
from jobs.errors import NotFound
from jobs.idempotency import Answer, answer_once
from jobs.models import Team

MAX_DEPTH = 200  # of any body; fields refuse less by name
TOO_DEEP = "it is nested too deep"
MAX_INTEGER_DIGITS = 300  # longer ones become infinite, which every field refuses by name


class JsonParser(BaseParser):
    """JSON as RFC 8259 has it; what cannot be read is a ParseError, however hostile."""

    media_type = "application/json"

    def parse(
        self,
        stream: Any,  # noqa: ANN401 - as the base class has it
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - any JSON value
        """Return the decoded body."""
        try:
            text = codecs.decode(stream.read(), "utf-8")
            value = json.loads(
                text,
                parse_constant=_refuse_constant,
                parse_int=_integer,
                object_pairs_hook=json_object,
            )
        except (ValueError, RecursionError) as error:
            reason = TOO_DEEP if isinstance(error, RecursionError) else str(error)
            raise ParseError(f"The body is not JSON: {reason}") from error
        if _is_deeper_than(MAX_DEPTH, value):
            raise ParseError(f"The body is not JSON: {TOO_DEEP}")
        return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _is_deeper_than(levels: int, value: object) -> bool:
    """Tell whether a value nests deeper than every recursion after this can follow."""
    level = [value]
    for _ in range(levels):
        level = [
            below
            for one in level
            if isinstance(one, dict | list)
            for below in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= MAX_INTEGER_DIGITS else float(text)


class OneRepresentation(BaseContentNegotiation):
    """Each resource has one representation; an Accept header changes nothing."""

    def select_parser(self, request: Request, parsers: Any) -> Any:  # noqa: ANN401 - as in DRF
        """Choose the parser by Content-Type; none that fits is a 415."""
        return DefaultContentNegotiation().select_parser(request, parsers)

    def select_renderer(
        self,
        request: Request,
        renderers: Any,  # noqa: ANN401 - as in DRF
        format_suffix: str | None = None,
    ) -> Any:  # noqa: ANN401 - as in DRF
        """Choose the only renderer."""
        return renderers[0], renderers[0].media_type


class TeamView(APIView):
    """A view on what one team owns."""

    parser_classes = [JsonParser]
    content_negotiation_class = OneRepresentation

    def options(  # type: ignore[override]  # the base answers a Response, for a renderer to fill
        self, request: Request, *args: object, **kwargs: object
    ) -> HttpResponse:
        """Tell which methods there are, by the Allow header alone."""
        return HttpResponse(status=204)

    @property
    def principal(self) -> Principal:
        """The token's team; the permission has made sure that there is one."""
        principal: Any = self.request.user
        assert isinstance(principal, Principal)  # noqa: S101 - TeamPermission lets none else in
        return principal

    @property
    def team(self) -> Team:
        """The team behind the token."""
        return self.principal.team

    @property
    def actor(self) -> str:
        """Who does it, for versions and the audit."""
        return self.principal.actor

    def once(self, request: Request, act: Callable[[], Answer]) -> HttpResponse:
        """Answer by `act`, once for each Idempotency-Key."""
        stated = json.dumps([request.method, request.path, request.data], sort_keys=True)
        request_hash = hashlib.sha256(stated.encode()).hexdigest()
        key = request.headers.get("Idempotency-Key")
        answer = answer_once(self.team, key, request_hash, act)
        return HttpResponse(
            answer.text,
            status=answer.status,
            headers=dict(answer.headers),
            content_type="application/json",
        )


def reply(
    body: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """Return a JSON response."""
    return JsonResponse(body, status=status, headers=dict(headers or {}))


def object_id(text: str, what: str) -> uuid.UUID:
    """Return the id in a path; what is no id is the id of nothing."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise NotFound(f"There is no such {what}.") from None
