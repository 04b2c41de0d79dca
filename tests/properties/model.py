"""The gateway's rules on plain dictionaries: what a store must do, said a second time and without a log.

Nothing of the engine is used here. Times are UTC microseconds. Where the specification is silent, the
reading is named in the comment beside it.
"""

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]

ACCIDENTAL = ("agent_close", "ws_orphan_reap")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000
_HIDDEN = ("ahead_at", "before_leap")
NEVER: Json = {"mode": "none", "at_hour": 4, "idle_minutes": 1440}


class UnknownSessionError(Exception):
    pass


class UnknownLaneError(Exception):
    pass


class SessionStateError(Exception):
    pass


class TurnInProgressError(Exception):
    pass


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def lane_key(source: Json, per_user: bool = True) -> str:
    """The lane of a source that has a chat id (G9 to G11); threads are shared."""
    parts = ["agent", "main", source["platform"], source.get("chat_type", "dm"), source["chat_id"]]
    if source.get("thread_id"):
        parts.append(source["thread_id"])
    elif source.get("chat_type", "dm") != "dm" and per_user:
        parts.append(source["user_id"])
    return ":".join(parts)


def peer(source: Json) -> tuple[Any, ...]:
    names = ("platform", "user_id", "chat_id", "chat_type", "thread_id")
    return tuple(source.get(name, "dm" if name == "chat_type" else None) for name in names)


class Model:
    """A store's lanes, sessions and turns. `departures` switches on what another program does differently."""

    def __init__(
        self,
        clock: Callable[[], datetime],
        policy: Callable[[Json], Json] = lambda _: NEVER,
        *,
        window: float = 3600.0,
        busy: Collection[str] = (),
        departures: Collection[str] = (),
    ) -> None:
        self.clock = clock
        self.policy = policy
        self.window = window
        self.busy = busy
        self.departures = frozenset(departures)
        self.met: set[str] = set()
        self.lanes: dict[str, Json] = {}
        self.sessions: dict[str, Json] = {}
        self.turns: dict[str, Json] = {}
        self.closed: set[tuple[str, str]] = set()
        self.dead: set[str] = set()
        self.ids: dict[str, dict[str, list[tuple[str, int]]]] = {}
        self.written = 0

    @property
    def now(self) -> int:
        return micros(self.clock())

    def departs(self, name: str) -> bool:
        """Note that a departure would show here; whether this model makes it."""
        self.met.add(name)
        return name in self.departures

    # Lanes

    def lane(self, key: str, session: str, source: Json, **fields: Any) -> Json:
        now = self.now
        self.lanes[key] = {
            "session_key": key,
            "session_id": session,
            "created_at": now,
            "updated_at": now,
            "origin": source,
            "display_name": source.get("chat_name"),
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "last_prompt_tokens": 0,
            "estimated_cost_usd": 0.0,
            "cost_status": "unknown",
            "was_auto_reset": False,
            "auto_reset_reason": None,
            "reset_had_activity": False,
            "is_fresh_reset": False,
            "expiry_finalized": False,
            "suspended": False,
            "resume_pending": False,
            "resume_reason": None,
            "last_resume_marked_at": None,
            "model_override": None,
            **dict.fromkeys(_HIDDEN, 0),
        } | fields
        return self.lanes[key]

    def entry(self, lane: Json | None) -> Json | None:
        """A lane as a store hands it out (G15)."""
        if lane is None:
            return None
        source = lane["origin"]
        return {name: value for name, value in lane.items() if name not in _HIDDEN} | {
            "platform": source["platform"],
            "chat_type": source.get("chat_type", "dm"),
            "total_tokens": lane["input_tokens"] + lane["output_tokens"],
        }

    def touch(self, lane: Json) -> None:
        self.touch_at(lane, self.now)

    def touch_at(self, lane: Json, now: int) -> None:
        """Reading: a clock that was set back does not move an idle clock back, but for more than an hour."""
        used = lane["updated_at"]
        if now > used:
            lane["before_leap"] = used if now - used > 30 * 24 * HOUR else lane["before_leap"]
            lane["ahead_at"] = lane["ahead_at"] if lane["ahead_at"] > now else 0
            lane["updated_at"] = now
        elif used - now > HOUR:
            lane.update(updated_at=now, ahead_at=max(lane["ahead_at"], used), before_leap=0)

    def used(self, lane: Json, now: int | None = None) -> int:
        """Reading: of the times a lane was used at, the one that can be true now; else now."""
        now = self.now if now is None else now
        known = [lane["ahead_at"], lane["updated_at"], lane["before_leap"]]
        return next((at for at in known if at and at <= now + HOUR), now)

    def due(self, lane: Json, policy: Json) -> str | None:
        """G29, with the wall clock of the store's zone."""
        now = self.clock()
        if policy["mode"] in ("idle", "both") and self.now - self.used(lane) > policy["idle_minutes"] * 60_000_000:
            return "idle"
        if policy["mode"] in ("daily", "both"):
            boundary = now.replace(hour=policy["at_hour"], minute=0, second=0, microsecond=0, fold=0)
            if now.hour < policy["at_hour"]:
                boundary -= timedelta(days=1)
            if self.used(lane) < micros(boundary):
                return "daily"
        return None

    def reset_reason(self, lane: Json, source: Json) -> str | None:
        """G22, G23, G30. Reading: a suspension was asked for, so running work does not hold it back."""
        if lane["suspended"]:
            return "suspended"
        policy = self.policy(source)
        reason = self.due(lane, policy)
        if reason is None and lane["resume_pending"] and policy["mode"] != "none" and self.window > 0:
            marked = lane["last_resume_marked_at"]
            pending = self.now - (marked if marked and marked <= self.now + HOUR else self.used(lane))
            reason = "resume_pending_expired" if pending > self.window * 1e6 else None
        return None if lane["session_key"] in self.busy else reason

    def route(self, key: str, source: Json, new: str, force_new: bool = False, touch: bool = True) -> Json | None:
        """G20 to G33; `new` names the session if one is made."""
        lane = None if force_new else self.lanes.get(key)
        auto: Json = {}
        if lane is not None:
            tip = self.tip(lane["session_id"])
            healed = tip != lane["session_id"]
            lane["session_id"] = tip
            if healed and self.departs("a compression's route only touches"):
                self.touch(lane)
                return self.entry(lane)
            reason = self.reset_reason(lane, source)
            if reason is None and self.sessions[tip]["end_reason"] is None:
                if touch:
                    self.touch(lane)
                return self.entry(lane)
            if reason is not None:
                auto = {
                    "was_auto_reset": True,
                    "auto_reset_reason": reason,
                    "reset_had_activity": lane["last_prompt_tokens"] > 0,
                }
                self.finish(tip, reason)
            del self.lanes[key]
        if not auto and not force_new:
            found = self.recover(key, source)
            if found is not None:
                return self.entry(found)
        self.create(new, key, source)
        return self.entry(self.lane(key, new, source, **auto))

    def tip(self, session: str) -> str:
        while self.sessions[session]["end_reason"] == "compression" and self.sessions[session]["child"]:
            session = self.sessions[session]["child"]
        return session

    def recover(self, key: str, source: Json) -> Json | None:
        """G27. Reading: the newest is the one that began last."""
        for column, value in (("lane", key), ("peer", peer(source))):
            found = [s for s in self.sessions.values() if s[column] == value and self.recoverable(s)]
            if found:
                newest = max(found, key=lambda s: (s["created_at"], s["session_id"]))
                newest.update(end_reason=None, ended_at=None)
                lane = self.lane(key, newest["session_id"], source, created_at=newest["created_at"])
                self.claim(lane)
                return lane
        return None

    def recoverable(self, session: Json) -> bool:
        open_ended = session["end_reason"] is None or session["end_reason"] in ACCIDENTAL
        spoken = any(session["live"])
        if open_ended and not spoken and session["messages"]:
            spoken = self.departs("undone messages count for recovery")
        return open_ended and spoken

    def claim(self, lane: Json) -> None:
        """Reading: a lane that recovers or switches to a session has it from then on."""
        self.sessions[lane["session_id"]].update(lane=lane["session_key"], peer=peer(lane["origin"]))

    def update_session(self, key: str, last_prompt_tokens: int | None = None, **usage: Any) -> None:
        lane = self.lanes.get(key)
        if lane is None:
            return
        self.touch(lane)
        if last_prompt_tokens is not None:
            lane["last_prompt_tokens"] = last_prompt_tokens
        cost = usage.pop("cost_usd", None)
        if cost is not None:
            lane["estimated_cost_usd"] += cost
            lane["cost_status"] = "estimated"
        for name, count in usage.items():
            lane[name] += count
        session = self.sessions[lane["session_id"]]
        if (session["lane"], session["peer"]) != (key, peer(lane["origin"])) and self.departs("usage claims a session"):
            self.claim(lane)

    def suspend_session(self, key: str) -> bool:
        if key in self.lanes:
            self.lanes[key]["suspended"] = True
        return key in self.lanes

    def mark_resume_pending(self, key: str, reason: str = "restart_timeout") -> bool:
        lane = self.lanes.get(key)
        if lane is None or lane["suspended"]:
            return False
        lane.update(resume_pending=True, resume_reason=reason, last_resume_marked_at=self.now)
        return True

    def clear_resume_pending(self, key: str) -> bool:
        lane = self.lanes.get(key)
        if lane is None or not lane["resume_pending"]:
            return False
        lane.update(resume_pending=False, resume_reason=None, last_resume_marked_at=None)
        return True

    def suspend_recently_active(self, max_age_seconds: float = 120) -> int:
        since = self.now - int(max_age_seconds * 1e6)
        return self.mark_cut_off([key for key, lane in self.lanes.items() if lane["updated_at"] >= since])

    def mark_cut_off(self, keys: Iterable[str]) -> int:
        lanes = [(key, self.lanes[key]) for key in keys]
        cut_off = [key for key, lane in lanes if not lane["suspended"] and not lane["resume_pending"]]
        return sum(self.mark_resume_pending(key, "restart_interrupted") for key in cut_off)

    def reset_session(self, key: str, new: str, display_name: str | None = None) -> Json | None:
        old = self.lanes.get(key)
        if old is None:
            return None
        self.finish(old["session_id"], "session_reset")
        self.create(new, key, old["origin"])
        name = old["display_name"] if display_name is None else display_name
        return self.entry(self.lane(key, new, old["origin"], display_name=name, is_fresh_reset=True))

    def switch_session(self, key: str, target: str) -> Json | None:
        """G38. Readings: the same id changes nothing, not even an end; a compressed target is reopened itself."""
        old = self.lanes.get(key)
        if old is None:
            return None
        if old["session_id"] == target:
            return self.entry(old)
        self.known(target)
        self.finish(old["session_id"], "session_switch")
        self.sessions[target].update(end_reason=None, ended_at=None)
        lane = self.lane(key, target, old["origin"], display_name=old["display_name"])
        self.claim(lane)
        return self.entry(lane)

    def set_model_override(self, key: str, override: Json | None) -> None:
        kept = {k: str(v) for k, v in (override or {}).items() if k in ("model", "provider", "base_url") and v}
        if key in self.lanes:
            self.lanes[key]["model_override"] = kept or None
        elif kept:
            raise UnknownLaneError

    def get_model_override(self, key: str) -> Json | None:
        override: Json | None = self.lanes.get(key, {}).get("model_override")
        return override

    def set_expiry_finalized(self, key: str) -> bool:
        """G40a: the session ends for its reason, and its model goes with it."""
        lane = self.lanes.get(key)
        if lane is None:
            return False
        if not lane["expiry_finalized"]:
            reason = "suspended" if lane["suspended"] else self.due(lane, self.policy(lane["origin"])) or "expired"
            self.finish(lane["session_id"], reason)
            lane["expiry_finalized"] = True
        lane["model_override"] = None
        return True

    def is_session_expired(self, key: str) -> bool | None:
        lane = self.lanes.get(key)
        if lane is None:
            return None
        return self.due(lane, self.policy(lane["origin"])) is not None and key not in self.busy

    def prune_old_entries(self, days: float | None = None) -> int:
        if days is None or days <= 0:
            return 0
        return self.prune(self.unused(days, self.lanes, self.now))

    def unused(self, days: float, keys: Iterable[str], now: int) -> list[str]:
        """Reading: a lane of which only a time to come is known counts as used now, from now on."""
        lanes = [(key, self.lanes[key]) for key in keys if key in self.lanes]
        for _, lane in lanes:
            if lane["updated_at"] > now + HOUR and self.used(lane, now) == now:
                self.touch_at(lane, now)
        return [key for key, lane in lanes if self.used(lane, now) < now - int(days * 86_400e6)]

    def prune(self, keys: Iterable[str]) -> int:
        """Reading: a lane that begins anew under a pruned one's name is another one, and not the lane of its turns."""
        old = [key for key in keys if not self.lanes[key]["suspended"] and key not in self.busy]
        for key in old:
            del self.lanes[key]
        for turn in self.turns.values():
            if turn["lane"] in old:
                turn["lane"] = None
        return len(old)

    def consume_notices(self, key: str) -> Json:
        names = ("was_auto_reset", "auto_reset_reason", "reset_had_activity", "is_fresh_reset")
        nothing = dict(zip(names, (False, None, False, False), strict=True))
        lane = self.lanes.get(key)
        if lane is None:
            return nothing
        notices = {name: lane[name] for name in names}
        lane.update(nothing)
        return notices

    def list_sessions(self, active_minutes: float | None = None) -> list[Json | None]:
        since = -(1 << 63) if active_minutes is None else self.now - int(active_minutes * 60e6)
        found = [lane for lane in self.lanes.values() if lane["updated_at"] >= since]
        return [self.entry(lane) for lane in sorted(found, key=lambda x: (-x["updated_at"], x["session_key"]))]

    def peek_session_id(self, key: str) -> str | None:
        return self.lanes[key]["session_id"] if key in self.lanes else None

    # Turns

    def begin_turn(self, key: str, token: str, holder: tuple[str, str], lease_seconds: float | None) -> str:
        """G36, and regression 12: one turn per conversation. A holder is a process and a store in it."""
        if key not in self.lanes:
            raise UnknownLaneError
        conversation = self.sessions[self.lanes[key]["session_id"]]["conversation_id"]
        running = self.turns.get(conversation)
        if running is not None:
            if not self.over(running, holder[0]):
                raise TurnInProgressError
            self.interrupt(conversation)
        self.turns[conversation] = {"token": token, "lane": key, "holder": holder, "ends_at": self.until(lease_seconds)}
        return token

    def until(self, lease_seconds: float | None) -> int | None:
        return None if lease_seconds is None else self.now + int(lease_seconds * 1e6)

    def over(self, turn: Json, asking: str) -> bool:
        """Reading: that a store was closed is known in its own process; other processes see only processes die."""
        process, _ = turn["holder"]
        gone = process in self.dead or (process == asking and turn["holder"] in self.closed)
        return gone or (turn["ends_at"] is not None and turn["ends_at"] <= self.now)

    def interrupt(self, conversation: str) -> None:
        lane = self.lanes.get(self.turns.pop(conversation)["lane"])
        if lane is None or lane["resume_pending"]:
            return
        if self.sessions[lane["session_id"]]["conversation_id"] == conversation:
            self.mark_resume_pending(lane["session_key"], "restart_interrupted")

    def renew_turn(self, token: str, lease_seconds: float | None) -> bool:
        found = [turn for turn in self.turns.values() if turn["token"] == token]
        for turn in found:
            turn["ends_at"] = self.until(lease_seconds)
        return bool(found)

    def end_turn(self, token: str) -> bool:
        found = [conversation for conversation, turn in self.turns.items() if turn["token"] == token]
        for conversation in found:
            del self.turns[conversation]
        return bool(found)

    def recover_interrupted_turns(self, asking: str) -> int:
        over = [conversation for conversation, turn in self.turns.items() if self.over(turn, asking)]
        for conversation in over:
            self.interrupt(conversation)
        return len(over)

    # Sessions

    def create(self, session: str, lane: str | None, source: Json, **fields: Any) -> Json:
        assert session not in self.sessions, f"a new session was asked for, and {session} is not one"
        self.sessions[session] = {
            "session_id": session,
            "conversation_id": session,
            "lane": lane,
            "peer": None if lane is None else peer(source),
            "source": source,
            "created_at": self.now,
            "ended_at": None,
            "end_reason": None,
            "parent": None,
            "relation": "root",
            "child": None,
            "title": None,
            "title_is_auto": False,
            "messages": [],
            "live": [],
            "undone": [],
            "order": [],
            "inherited": set(),
            "forked_from": None,
            "forked_at": 0,
        } | fields
        return self.sessions[session]

    def known(self, session: str) -> Json:
        if session not in self.sessions:
            raise UnknownSessionError
        return self.sessions[session]

    def finish(self, session: str, reason: str) -> bool:
        """G44: the first reason wins, unless a deliberate one replaces an accidental one."""
        found = self.known(session)
        before = found["end_reason"]
        if before is not None and (before not in ACCIDENTAL or reason in ACCIDENTAL):
            return False
        found.update(end_reason=reason, ended_at=self.now)
        return True

    def end_session(self, session: str, reason: str) -> bool:
        accidental = self.known(session)["end_reason"] in ACCIDENTAL
        if accidental and reason not in ACCIDENTAL and self.departs("the first end always stands"):
            return False
        return self.finish(session, reason)

    def reopen_session(self, session: str) -> bool:
        ended = self.known(session)["end_reason"] is not None
        self.sessions[session].update(end_reason=None, ended_at=None)
        return ended

    def compress_session(
        self, session: str, new: str, summary: Iterable[Json], covers: int | None = None, key: str | None = None
    ) -> str:
        """G42. `key` is the lane that asks, which matters only to a program that moves no other."""
        parent = self.known(session)
        if parent["end_reason"] is not None and parent["end_reason"] not in ACCIDENTAL:
            raise SessionStateError
        if new in self.sessions:
            raise SessionStateError
        carried = [] if covers is None else self.placed(session)[covers:]
        child = self.create(
            new,
            parent["lane"],
            parent["source"],
            peer=parent["peer"],
            conversation_id=parent["conversation_id"],
            parent=session,
            relation="compression",
        )
        parent.update(end_reason="compression", ended_at=self.now, child=new)
        self.inherit_title(parent, child)
        self.replace(child, self.stamped(summary), carried)
        for lane in [lane for lane in self.lanes.values() if lane["session_id"] == session]:
            if key in (None, lane["session_key"]) or not self.departs("compression moves one lane"):
                lane["session_id"] = new
        if key is not None:
            asking = self.lanes[key]
            if (child["lane"], child["peer"]) != (key, peer(asking["origin"])) and self.departs(
                "compression claims the child for the lane that asks"
            ):
                self.claim(asking)
        return new

    def fork_session(self, session: str, new: str, history: list[tuple[Json, int]], at: int) -> str:
        """G43; `history` is that up to where the fork is made, `at` its place in the order of all messages."""
        parent = self.known(session)
        conversation = parent["conversation_id"]
        child = self.create(
            new, None, parent["source"], parent=session, relation="fork", forked_from=conversation, forked_at=at
        )
        self.inherit_title(parent, child)
        self.replace(child, [], history)
        return new

    def inherit_title(self, parent: Json, child: Json) -> None:
        if parent["title"] is not None:
            child["title"] = self.free_title(parent["title"], child["session_id"])
            child["title_is_auto"] = parent["title_is_auto"]

    def free_title(self, title: str, session: str) -> str:
        """G44: itself, or its name with a number above all that its namesakes have."""
        taken = {s["title"] for s in self.sessions.values() if s["session_id"] != session and s["title"]}
        if title not in taken:
            return title
        numbered = [split_title(other) for other in taken]
        name = split_title(title)[0]
        own: str | None = self.sessions[session]["title"]
        if own is not None and own not in taken and split_title(own)[0] == name:
            return own
        return f"{name} #{max(number for other, number in numbered if other == name) + 1}"

    def set_title(self, session: str, title: str | None, auto: bool) -> str | None:
        found = self.known(session)
        if auto and found["title"] is not None and not found["title_is_auto"]:
            chosen: str = found["title"]
            return chosen
        if title is not None:
            self.take_title_from_closed_segments(title, found)
        free = None if title is None else self.free_title(title, session)
        found.update(title=free, title_is_auto=auto)
        return free

    def take_title_from_closed_segments(self, title: str, session: Json) -> None:
        """G44a: naming a compressed child as its closed parent is called moves the name."""
        for other in self.sessions.values():
            same = other["conversation_id"] == session["conversation_id"] and other is not session
            if same and other["end_reason"] == "compression" and other["child"] and other["title"] == title:
                other.update(title=None, title_is_auto=False)

    # Transcripts

    def has_platform_message_id(self, session: str, message_id: str) -> bool:
        """G47: exact, for the whole conversation and for what a fork came from, up to where it was made."""
        found, conversation, until = self.sessions[self.tip(session)], "", None
        while True:
            conversation = conversation or found["conversation_id"]
            places = self.ids.get(conversation, {}).get(message_id, ())
            if any(until is None or order <= until for _, order in places):
                return True
            first = self.sessions[found["conversation_id"]]
            if first["forked_from"] is None:
                return False
            until = first["forked_at"] if until is None else min(until, first["forked_at"])
            found, conversation = self.sessions[first["parent"]], first["forked_from"]

    def stamped(self, messages: Iterable[Json]) -> list[Json]:
        """Messages as they come back, with the time they were recorded at if they bring none (G49b)."""
        return [{"timestamp": self.now / 1e6} | whole(message) for message in messages]

    def append_messages(self, session: str, messages: Iterable[Json]) -> int:
        """Return how many were new (G47). Reading of G42: a late message goes where the conversation goes on."""
        found = self.known(session)
        tip = self.tip(session)
        if tip != session and not self.departs("a late message stays with the compressed session"):
            found = self.sessions[tip]
        before = len(found["messages"])
        for message in self.stamped(messages):
            message_id = message.get("message_id")
            if message_id is not None and self.has_platform_message_id(found["session_id"], message_id):
                continue
            self.written += 1
            self.learn(found, message, self.written)
            found["messages"].append(message)
            found["live"].append(True)
            found["order"].append(self.written)
        return len(found["messages"]) - before

    def learn(self, session: Json, message: Json, order: int) -> None:
        message_id = message.get("message_id")
        if message_id is not None:
            known = self.ids.setdefault(session["conversation_id"], {})
            known.setdefault(message_id, []).append((session["session_id"], order))

    def load_transcript(self, session: str) -> list[Json]:
        """G49a: of an unknown session, nothing."""
        return [message for message, _ in self.placed(session)] if session in self.sessions else []

    def placed(self, session: str) -> list[tuple[Json, int]]:
        """The live messages with their places in the order of all messages."""
        found = self.known(session)
        rows = zip(found["messages"], found["order"], found["live"], strict=True)
        return [(message, order) for message, order, live in rows if live]

    def replace(self, session: Json, messages: list[Json], inherited: Iterable[tuple[Json, int]] = ()) -> None:
        rows: list[tuple[Json, int]] = []
        for message in messages:
            self.written += 1
            rows.append((message, self.written))
            self.learn(session, message, self.written)
        rows += inherited
        session.update(
            messages=[message for message, _ in rows],
            order=[order for _, order in rows],
            live=[True] * len(rows),
            undone=[],
            inherited={order for _, order in rows[len(messages) :]},
        )

    def rewrite_transcript(self, session: str, messages: Iterable[Json]) -> bool:
        """G50. G47a: the ids of what it leaves out are free; what it keeps stays where it was for those who forked."""
        found = self.known(session)
        messages = list(messages)
        left_out = found["inherited"] - self.kept(session, messages)
        known = self.ids.get(found["conversation_id"], {})
        for message_id, places in known.items():
            known[message_id] = [at for at in places if at[0] != session and at[1] not in left_out]
        found.update(forked_from=None, forked_at=0)
        self.replace(found, self.stamped(messages))
        return True

    def kept(self, session: str, messages: Iterable[Json]) -> set[int]:
        """The places of the live messages that are given back as they are, each once."""
        places = self.placed(session)
        for given in map(whole, messages):
            same = (place for place in places if place[0] == {"timestamp": place[0]["timestamp"]} | given)
            if (found := next(same, None)) is not None:
                places.remove(found)
        return {order for _, order in self.placed(session)} - {order for _, order in places}

    def rewind_session(self, session: str, n: int = 1) -> Json | None:
        if session not in self.sessions:
            return None
        found = self.sessions[session]
        live = [index for index, shown in enumerate(found["live"]) if shown]
        asked = [index for index in live if found["messages"][index]["role"] == "user"]
        if not asked:
            return None
        undone = min(max(n, 1), len(asked))
        hidden = [index for index in live if index >= asked[-undone]]
        for index in hidden:
            found["live"][index] = False
        found["undone"].append(hidden)
        content = found["messages"][hidden[0]].get("content")
        if isinstance(content, list):
            content = "\n".join(part["text"] for part in content if part["type"] == "text")
        return {
            "rewound_count": len(hidden),
            "turns_undone": undone,
            "target_text": content if isinstance(content, str) else "",
            "target_message": found["messages"][hidden[0]],
        }

    def restore_rewound(self, session: str) -> int:
        found = self.known(session)
        hidden = found["undone"].pop() if found["undone"] else []
        for index in hidden:
            found["live"][index] = True
        return len(hidden)


def whole(message: Json) -> Json:
    """A message as it comes back (G46, G49)."""
    kept = {name: value for name, value in message.items() if name != "platform_message_id"}
    message_id = message.get("platform_message_id") or message.get("message_id")
    return {"role": "unknown"} | kept | ({} if message_id is None else {"message_id": message_id})


def split_title(title: str) -> tuple[str, int]:
    name, mark, number = title.rpartition(" #")
    return (name, int(number)) if mark and number.isdigit() and int(number) > 1 else (title, 1)
