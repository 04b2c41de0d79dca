"""G46 to G52: messages."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from engine import UnknownSessionError
from engine.domain import events as e
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from tests.faults.disk import Disk, full_error
from tests.gateway.support import said, say, texts
from tests.gateway.test_projections import damage

BROKEN_MARK = '{"type":"message.appended","message":{"role":"user","content":{"$int":"zz"}}}'


@pytest.fixture
def session_id(store, source):
    return store.get_or_create_session(source()).session_id


class TestAppending:
    @pytest.mark.parametrize(
        "content",
        [
            "text",
            "",
            None,
            {"type": "text", "text": "x"},
            [{"type": "text", "text": "x"}, {"type": "image", "url": "u"}],
        ],
    )
    def test_content_comes_back_as_it_was(self, store, session_id, content):
        """G46."""
        store.append_to_transcript(session_id, {"role": "user", "content": content})
        assert said(store, session_id) == [{"role": "user", "content": content}]

    def test_every_field_and_unknown_keys_are_kept(self, store, session_id):
        """G46."""
        message = {
            "role": "assistant",
            "content": "x",
            "tool_name": "search",
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
            "tool_call_id": "c1",
            "reasoning": "because",
            "reasoning_details": [{"a": 1}],
            "observed": True,
            "timestamp": 1782915930.25,
            "x_unknown": {"deep": [1, None, "é"]},
        }
        store.append_messages(session_id, [message])
        assert store.load_transcript(session_id) == [message]

    def test_the_default_role_is_unknown(self, store, session_id):
        """G46."""
        store.append_messages(session_id, [{"content": "x"}, {"role": None}])
        assert [message["role"] for message in store.load_transcript(session_id)] == ["unknown", "unknown"]

    def test_a_role_is_text(self, store, session_id):
        """G46."""
        store.append_messages(session_id, [{"role": 5}, {"role": ""}])
        assert [message["role"] for message in store.load_transcript(session_id)] == ["5", ""]

    @pytest.mark.parametrize(
        "field",
        ["reasoning", "reasoning_content", "reasoning_details", "codex_reasoning_items", "codex_message_items"],
    )
    def test_reasoning_is_the_assistants_only(self, store, session_id, field):
        """G46."""
        for role in ("user", "assistant"):
            store.append_to_transcript(session_id, {"role": role, "content": "x", field: ["y"]})
        assert said(store, session_id) == [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "x", field: ["y"]},
        ]

    def test_skip_db_appends_nothing(self, store, session_id):
        """G46."""
        before = store.log.last_position
        assert store.append_to_transcript(session_id, {"role": "user", "content": "x"}, skip_db=True) is None
        assert store.log.last_position == before

    def test_the_answer_is_the_position(self, store, session_id):
        """G46."""
        position = store.append_to_transcript(session_id, {"role": "user", "content": "x"})
        assert position == store.log.last_position
        assert store.append_messages(session_id, [{"content": "y"}, {"content": "z"}]) == [position + 1, position + 2]
        assert store.append_messages(session_id, []) == []

    def test_what_is_handed_out_is_the_callers_own(self, store, session_id):
        """G49, G19."""
        given = {"role": "user", "content": [{"type": "text", "text": "x"}]}
        store.append_to_transcript(session_id, given)
        given["content"][0]["text"] = "changed"
        store.load_transcript(session_id)[0]["content"][0]["text"] = "changed"
        assert store.load_transcript(session_id)[0]["content"][0]["text"] == "x"


class TestIdempotence:
    @pytest.mark.parametrize("name", ["platform_message_id", "message_id"])
    def test_the_same_id_twice_is_one_message(self, store, open_store, session_id, name):
        """G47: from another process too."""
        message = {"role": "user", "content": "x", name: "m1"}
        assert store.append_to_transcript(session_id, message) is not None
        assert store.append_to_transcript(session_id, message) is None
        assert open_store().append_messages(session_id, [message, message]) == []
        assert said(store, session_id) == [{"role": "user", "content": "x", "message_id": "m1"}]

    def test_an_empty_id_is_none(self, store, session_id):
        """G47: two messages without an id are two."""
        for name in ("platform_message_id", "message_id"):
            for _ in range(2):
                assert store.append_to_transcript(session_id, {"content": "x", name: ""}) is not None
        assert not store.has_platform_message_id(session_id, "")
        store.append_to_transcript(session_id, {"content": "x", "platform_message_id": "", "message_id": "m"})
        assert store.has_platform_message_id(session_id, "m")

    def test_of_two_ids_the_platforms_own_counts(self, store, session_id):
        """G47."""
        store.append_to_transcript(session_id, {"content": "x", "message_id": "ours", "platform_message_id": "theirs"})
        assert store.has_platform_message_id(session_id, "theirs")
        assert not store.has_platform_message_id(session_id, "ours")
        assert store.load_transcript(session_id)[0]["message_id"] == "theirs"

    def test_within_one_call(self, store, session_id):
        """G47."""
        twice = [{"content": "a", "message_id": "m"}, {"content": "b", "message_id": "m"}]
        assert len(store.append_messages(session_id, twice)) == 1
        assert texts(store, session_id) == ["a"]

    def test_per_session(self, store, source, session_id):
        """G47."""
        other = store.get_or_create_session(source("other")).session_id
        for each in (session_id, other):
            assert store.append_to_transcript(each, {"content": "x", "message_id": "m"}) is not None

    def test_exact(self, store, session_id):
        """G47."""
        store.append_to_transcript(session_id, {"content": "x", "message_id": 17})
        assert store.has_platform_message_id(session_id, "17")
        for other in ("1", "171", " 17", "17.0", ""):
            assert not store.has_platform_message_id(session_id, other)
        assert not store.has_platform_message_id("20200101_000000_00000000", "17")
        assert store.append_to_transcript(session_id, {"content": "y", "message_id": ""}) is not None

    def test_still_known_after_undo(self, store, session_id):
        """G47: and after the tables were made again."""
        message = {"role": "user", "content": "x", "message_id": "m1"}
        store.append_to_transcript(session_id, message)
        store.rewind_session(session_id)
        assert store.has_platform_message_id(session_id, "m1")
        assert store.append_to_transcript(session_id, message) is None
        store.rebuild()
        assert store.has_platform_message_id(session_id, "m1")
        assert texts(store, session_id) == []

    def test_an_id_that_a_rewrite_brought_is_known(self, store, session_id):
        """G47."""
        store.rewrite_transcript(session_id, [{"role": "user", "content": "x", "platform_message_id": "m9"}])
        assert store.has_platform_message_id(session_id, "m9")
        assert store.append_to_transcript(session_id, {"content": "x", "message_id": "m9"}) is None


class TestFailing:
    def test_a_failed_append_raises_and_leaves_nothing(self, open_store, source):
        """G48: what was acknowledged before is there, what failed is not, and the store goes on."""
        with Disk().in_use() as disk:
            store = open_store(vfs=disk.name)
            session_id = store.get_or_create_session(source()).session_id
            say(store, session_id, "before")
            disk.fail = lambda _, what: full_error(what) if what in ("write", "sync") else None
            with pytest.raises(Exception, match="no space left") as caught:
                store.append_messages(session_id, [{"content": "one"}, {"content": "two"}])
            assert caught.value.code == "disk_full"
            disk.fail = None
            assert texts(store, session_id) == ["before"]
            say(store, session_id, "after")
            assert texts(store, session_id) == ["before", "after"]
            assert store.get_session(session_id).message_count == 2
            store.close()

    def test_an_unknown_session(self, store):
        """G48: nothing is swallowed."""
        with pytest.raises(UnknownSessionError, match="no session '2020"):
            store.append_to_transcript("2020", {"content": "x"})
        assert store.load_transcript("2020") == []

    def test_all_or_none(self, store, session_id):
        """G48: the second one is too large."""
        with pytest.raises(Exception, match="limit"):
            store.append_messages(session_id, [{"content": "one"}, {"content": "x" * (16 * 1024 * 1024 + 1)}])
        assert texts(store, session_id) == []
        assert store.get_session(session_id).message_count == 0


class TestOrder:
    def test_append_order_and_never_by_timestamp(self, store, clock, session_id):
        """G49: also when the clock goes back."""
        for number, seconds in enumerate((0, -50, 20)):
            clock.advance(seconds=seconds)
            store.append_to_transcript(session_id, {"content": number, "timestamp": 100 - number})
        assert texts(store, session_id) == [0, 1, 2]

    def test_the_cache_is_bounded_and_changes_nothing(self, open_store, source):
        """G49."""
        store = open_store(cached_transcript_bytes=100)
        ids = [store.get_or_create_session(source(str(number))).session_id for number in range(3)]
        for each in ids * 3:
            say(store, each, each)
            assert set(texts(store, each)) == {each}
        assert store.metrics()["cached_transcript_bytes"] <= 100


class TestRewriting:
    def test_the_new_history_is_live_and_the_old_stays_in_the_log(self, store, session_id):
        """G50."""
        say(store, session_id, "one", "two")
        store.rewrite_transcript(session_id, [{"role": "system", "content": "summary", "message_id": "s"}])
        say(store, session_id, "three")
        assert texts(store, session_id) == ["summary", "three"]
        assert store.get_session(session_id).message_count == 2
        assert store.load_transcript(session_id)[0]["message_id"] == "s"
        topics = [e.MessageAppended.TOPIC, e.MessageRewritten.TOPIC]
        written = [each.event.message["content"] for each in store.log.events(topics=topics)]
        assert written == ["one", "two", "summary", "three"]

    def test_rewriting_forgets_what_was_hidden(self, store, session_id):
        """G50, G51."""
        say(store, session_id, "one")
        store.rewind_session(session_id)
        store.rewrite_transcript(session_id, [])
        assert store.restore_rewound(session_id) == 0
        assert texts(store, session_id) == []


class TestRewinding:
    def fill(self, store, session_id):
        for number in range(1, 4):
            say(store, session_id, f"u{number}")
            say(store, session_id, f"a{number}", role="assistant")

    @pytest.mark.parametrize(
        ("n", "left", "count", "turns", "text"),
        [(1, 4, 2, 1, "u3"), (2, 2, 4, 2, "u2"), (0, 4, 2, 1, "u3"), (-5, 4, 2, 1, "u3"), (99, 0, 6, 3, "u1")],
    )
    def test_from_the_nth_last_user_message_on(self, store, session_id, n, left, count, turns, text):
        """G51."""
        self.fill(store, session_id)
        found = store.rewind_session(session_id, n)
        target = found.pop("target_message")
        assert found == {"rewound_count": count, "turns_undone": turns, "target_text": text}
        assert (target["role"], target["content"]) == ("user", text)
        assert len(store.load_transcript(session_id)) == left == store.get_session(session_id).message_count

    def test_clamped_to_the_oldest_user_message_not_to_the_start(self, store, session_id):
        """G51."""
        say(store, session_id, "system", role="system")
        self.fill(store, session_id)
        store.rewind_session(session_id, 99)
        assert texts(store, session_id) == ["system"]

    def test_nothing_without_a_user_message(self, store, session_id):
        """G51."""
        say(store, session_id, "a", role="assistant")
        before = store.log.last_position
        assert store.rewind_session(session_id) is None
        assert store.log.last_position == before

    def test_the_text_of_parts_is_joined_by_newlines(self, store, session_id):
        """G51."""
        parts = [{"type": "text", "text": "a"}, {"type": "image_url", "url": "u"}, {"type": "text", "text": "b"}]
        store.append_to_transcript(session_id, {"role": "user", "content": parts})
        assert store.rewind_session(session_id)["target_text"] == "a\nb"
        for content, words in (
            ({"type": "text", "text": "c"}, "c"),
            (["d", {"type": "text", "text": "e"}], "d\ne"),
            (None, ""),
        ):
            store.append_to_transcript(session_id, {"role": "user", "content": content})
            assert store.rewind_session(session_id)["target_text"] == words

    def test_a_part_of_another_type_is_no_text(self, store, session_id):
        """G51: whatever keys it has."""
        parts = [{"type": "image", "text": "a caption"}, {"type": "text", "text": "a"}, {"text": "no type"}]
        store.append_to_transcript(session_id, {"role": "user", "content": parts})
        assert store.rewind_session(session_id)["target_text"] == "a"

    def test_restored_in_the_order_it_was_hidden(self, store, open_store, session_id):
        """G51: twice undone, twice restored; then nothing is left to restore."""
        self.fill(store, session_id)
        store.rewind_session(session_id)
        store.rewind_session(session_id)
        assert store.restore_rewound(session_id) == 2
        assert texts(store, session_id) == ["u1", "a1", "u2", "a2"]
        assert texts(open_store(), session_id) == ["u1", "a1", "u2", "a2"], "a fold from the start agrees"
        assert store.restore_rewound(session_id) == 2
        assert store.restore_rewound(session_id) == 0
        assert store.get_session(session_id).message_count == 6

    def test_restored_after_an_append_is_in_append_order(self, store, open_store, session_id):
        """G51, G49."""
        say(store, session_id, "one", "two")
        store.rewind_session(session_id)
        say(store, session_id, "three")
        assert texts(store, session_id) == ["one", "three"]
        assert store.rewind_session(session_id)["rewound_count"] == 1
        assert store.restore_rewound(session_id) == 1
        assert store.restore_rewound(session_id) == 1
        for each in (store, open_store()):
            assert texts(each, session_id) == ["one", "two", "three"]
            assert each.get_session(session_id).message_count == 3


class TestHostileText:
    def test_it_comes_back(self, store, open_store, session_id):
        """G52: and never fails a turn."""
        message = {
            "role": "user",
            "content": "a\ud800b\0c",
            "big": [2**64, -(2**63) - 1, 10**5000],
            "numbers": [float("inf"), float("-inf")],
            "\udc80key": "value",
            "$text": "not a marker",
            "looks": {"$text": "like one"},
            "message_id": "id-\ud800",
        }
        store.append_to_transcript(session_id, message)
        for each in (store, open_store()):
            assert said(each, session_id) == [message]
            assert each.has_platform_message_id(session_id, "id-\ud800")
        assert store.append_to_transcript(session_id, message) is None
        assert store.log.verify().ok

    def test_a_key_with_a_surrogate_and_a_plain_id(self, store, session_id):
        """G52: the message is marked as a whole, and its id still belongs to it."""
        message = {"role": "user", "content": "x", "\ud800": 1, "message_id": "m"}
        store.append_to_transcript(session_id, message)
        assert said(store, session_id) == [message]

    def test_nan(self, store, session_id):
        """G52."""
        store.append_to_transcript(session_id, {"role": "user", "content": float("nan"), "null": None})
        (found,) = store.load_transcript(session_id)
        assert math.isnan(found["content"])
        assert found["null"] is None

    def test_what_json_has_no_word_for_is_marked(self, store, session_id):
        """G52."""
        deep = "leaf"
        for _ in range(3000):
            deep = [deep]
        at = datetime(2026, 7, 1, tzinfo=UTC)
        store.append_to_transcript(session_id, {"role": "user", "content": object(), "deep": deep, "at": at})
        (found,) = store.load_transcript(session_id)
        assert found["content"]["$repr"].startswith("<object object")
        assert found["at"].startswith("2026-07-01T00:00:00")

    @pytest.mark.parametrize("how", ["rewrite", "compress", "fork"])
    def test_also_in_a_copied_history(self, store, open_store, session_id, how):
        """G52."""
        message = {"role": "user", "content": "a\ud800", "\udc80": 2**70, "message_id": "m\ud800"}
        if how == "rewrite":
            store.rewrite_transcript(session_id, [message])
            copy = session_id
        elif how == "compress":
            copy = store.compress_session(session_id, summary_messages=[message])
        else:
            store.append_to_transcript(session_id, message)
            copy = store.fork_session(session_id)
        assert said(open_store(), copy) == [message]
        assert store.has_platform_message_id(copy, "m\ud800")

    def test_hostile_names_in_a_source_do_not_stop_routing(self, store, open_store, source):
        """G52: a nickname that was not UTF-8 is a user id with lone surrogates."""
        odd = source("c\udc80", chat_name="n\ud800\0", user_id="u\udcff", chat_topic="t\ud800")
        entry = store.get_or_create_session(odd)
        say(store, entry.session_id, "x")
        assert store.get_or_create_session(odd).session_id == entry.session_id
        assert open_store().list_sessions()[0].origin == odd
        assert store.get_or_create_session(source("c\udc81")).session_id != entry.session_id


def test_erasing_a_message_brings_nothing_back(store, source):
    """G51: an undo counts places, and an erased message keeps its own, also when the tables are made again."""
    session_id = store.get_or_create_session(source()).session_id
    positions = store.append_messages(session_id, [{"role": "user", "content": str(n)} for n in range(4)])
    store.rewind_session(session_id, 2)
    store.log.erase([positions[0]], actor="operator", reason="asked to")
    assert [message["content"] for message in store.load_transcript(session_id)] == ["1"]
    store.rebuild()
    store.restore_rewound(session_id)
    assert store.rewind_session(session_id)["target_text"] == "3"
    assert [message["content"] for message in store.load_transcript(session_id)] == ["1", "2"]


@pytest.mark.parametrize("depth", [150, 600, 960, 10_000])
def test_however_deep_a_message_is_the_session_can_be_read(store, open_store, source, depth):
    """G52, G48: a depth that Python cannot follow is cut where it is stored, not found when it is read."""
    session_id = store.get_or_create_session(source()).session_id
    content: Any = "x"
    for _ in range(depth):
        content = [content]
    store.append_to_transcript(session_id, {"role": "user", "content": content})
    store.append_to_transcript(session_id, {"role": "tool", "content": {"$schema": "x"}})
    for each in (store, open_store()):
        deep, schema = each.load_transcript(session_id)
        assert schema["content"] == {"$schema": "x"}
        assert (deep["content"] == content) if depth < 200 else ("nested deeper" in repr(deep))
    assert len(store.load_transcript(store.fork_session(session_id))) == 2


def test_a_message_with_a_broken_mark_is_left_out_and_the_others_are_read(store, source, caplog):
    """Regression 11, for a message that another program wrote."""
    session_id = store.get_or_create_session(source()).session_id
    say(store, session_id, "one")
    with EventLog(store.log.path) as log:
        log.append([Envelope(f"session:{session_id}", NEXT_VERSION, e.MessageAppended(message={"role": "user"}))])
        log.transact(lambda t: damage(t, log.last_position, "message.appended", BROKEN_MARK))
    say(store, session_id, "two")
    assert texts(store, session_id) == ["one", "two"]
    assert store.get_session(session_id).message_count == 2
    assert "quarantined" in caplog.text


def test_ids_that_look_alike_only_when_escaped_are_two(store, source):
    """G47, G52."""
    session_id = store.get_or_create_session(source()).session_id
    ids = ["m\ud800", "m\\ud800", '\0"m\\ud800"', "\0m"]
    for message_id in ids:
        assert store.append_to_transcript(session_id, {"role": "user", "content": "x", "message_id": message_id})
    assert [message["message_id"] for message in store.load_transcript(session_id)] == ids


def test_what_came_late_for_a_compressed_session_is_known_under_its_id(store, source):
    """G47: it was appended to the session that goes on, and acknowledged for this one."""
    session_id = store.get_or_create_session(source()).session_id
    say(store, session_id, "one")
    store.compress_session(session_id)
    store.append_to_transcript(session_id, {"role": "user", "content": "late", "message_id": "late-1"})
    assert store.has_platform_message_id(session_id, "late-1")
    assert not store.has_platform_message_id(session_id, "late-2")
