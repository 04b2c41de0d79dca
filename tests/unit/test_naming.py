"""G9 and G12: lanes named with the WhatsApp aliases that are on this machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.naming import build_session_key


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bridge that knows the person 998877 as 4917."""
    folder = tmp_path / "whatsapp" / "session"
    folder.mkdir(parents=True)
    (folder / "lid-mapping-998877.json").write_text(json.dumps("4917@s.whatsapp.net"))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))


@pytest.mark.usefixtures("mapped")
@pytest.mark.parametrize(
    ("fields", "rest"),
    [
        ({"chat_id": "998877@lid"}, "dm:4917"),
        ({"chat_id": "+4917:3@s.whatsapp.net"}, "dm:4917"),
        ({"chat_id": "", "user_id": "998877@lid"}, "dm:4917"),
        ({"chat_id": "998877@g.us", "chat_type": "group", "user_id": "998877@lid"}, "group:998877@g.us:4917"),
    ],
)
def test_g12_whatsapp_people_are_canonical_in_keys_and_groups_are_not(fields: Any, rest: str) -> None:
    source = SessionSource(platform=Platform.WHATSAPP, **fields)
    assert build_session_key(source) == f"agent:main:whatsapp:{rest}"


@pytest.mark.usefixtures("mapped")
def test_g12_whatsapp_cloud_ids_are_left_alone() -> None:
    source = SessionSource(platform=Platform.WHATSAPP_CLOUD, chat_id="998877@lid")
    assert build_session_key(source) == "agent:main:whatsapp_cloud:dm:998877@lid"


def test_g9_something_that_is_no_source_is_refused_by_the_arguments_name() -> None:
    with pytest.raises(ValueError, match="source must be a SessionSource"):
        build_session_key({"platform": "sms"})  # type: ignore[arg-type]
