"""Teams and tokens in the admin: a secret is seen once."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from jobs.auth import token_hash
from jobs.models import ApiToken, AuditEntry, Team
from tests.factories import make_client, make_team
from tests.integration.admin_support import act, body, said, shown, staff

pytestmark = pytest.mark.django_db
TOKENS = "admin:jobs_apitoken_changelist"


def test_new_token_shows_its_secret_once_and_opens_the_api(admin_client: Client) -> None:
    team = make_team()
    made = admin_client.post(
        reverse("admin:jobs_apitoken_add"), {"team": team.pk, "name": "ci", "role": "viewer"}
    )
    (secret,) = re.findall(r'<pre class="ch-pre" id="ch-secret">(.+?)</pre>', body(made))
    token = ApiToken.objects.get()
    assert (token.team, token.name, token.role) == (team, "ci", "viewer")
    assert token.token_hash == token_hash(secret)
    assert "no-store" in made.headers["Cache-Control"]
    api = Client(headers={"authorization": f"Bearer {secret}"})
    assert api.get("/v1/jobs").status_code == 200
    later = body(admin_client.get(reverse(TOKENS)))
    page = body(admin_client.get(reverse("admin:jobs_apitoken_change", args=[token.pk])))
    assert secret not in later + page
    assert token.token_hash not in later + page
    (entry,) = AuditEntry.objects.all()
    assert (entry.actor, entry.action) == ("admin:admin", "token_create")
    assert secret not in str(entry.detail)


def test_revoked_token_opens_nothing(admin_client: Client) -> None:
    api = make_client()
    token = ApiToken.objects.get()
    assert api.get("/v1/jobs").status_code == 200
    assert said(act(admin_client, TOKENS, "revoke_selected", [token.pk])) == ["1 revoked."]
    assert api.get("/v1/jobs").status_code == 401
    again = act(admin_client, TOKENS, "revoke_selected", [token.pk])
    assert said(again) == ["1 were revoked already."]
    assert [entry.action for entry in AuditEntry.objects.all()] == ["token_revoke"]


def test_token_verbs_need_their_permissions() -> None:
    make_client()
    token = ApiToken.objects.get()
    viewer = staff("jobs.view_apitoken")
    act(viewer, TOKENS, "revoke_selected", [token.pk])
    assert viewer.get(reverse("admin:jobs_apitoken_add")).status_code == 403
    token.refresh_from_db()
    assert token.revoked_at is None


def test_token_is_never_altered_nor_deleted(admin_client: Client) -> None:
    make_client()
    token = ApiToken.objects.get()
    change = reverse("admin:jobs_apitoken_change", args=[token.pk])
    assert admin_client.post(change, {"name": "other"}).status_code == 403
    delete = reverse("admin:jobs_apitoken_delete", args=[token.pk])
    assert admin_client.post(delete).status_code == 403


def test_team_is_made_and_renamed_but_keeps_its_slug(admin_client: Client) -> None:
    admin_client.post(reverse("admin:jobs_team_add"), {"slug": "data", "name": "Data"})
    team = Team.objects.get()
    change = reverse("admin:jobs_team_change", args=[team.pk])
    admin_client.post(change, {"slug": "other", "name": "Data platform"})
    team.refresh_from_db()
    assert (team.slug, team.name) == ("data", "Data platform")
    assert admin_client.post(reverse("admin:jobs_team_delete", args=[team.pk])).status_code == 403
    assert shown(admin_client, "admin:jobs_team_changelist", q="plat") == [team]
