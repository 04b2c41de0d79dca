"""A gateway that is killed in the middle of its turns: `python -m examples.demo.crash FOLDER TIME`."""

import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

from engine import Platform, SessionStore
from examples.demo.chats import CHATS, CONFIG, FastClock, Ledger

ROOT = Path(__file__).parent.parent.parent
FINISHED = (Platform.SMS,)
CUT_OFF = (Platform.TELEGRAM, Platform.DISCORD, Platform.EMAIL)


def work(folder: str, now: str) -> None:
    """Answer one message, and say of each message that it is stored; begin to answer others, and never end."""
    store = SessionStore(folder, CONFIG, clock=FastClock(datetime.fromisoformat(now)))
    for platform in FINISHED + CUT_OFF:
        entry = store.get_or_create_session(CHATS[platform])
        token = store.begin_turn(entry.session_key)
        message_id = before_the_kill(platform)
        store.append_to_transcript(entry.session_id, {"role": "user", "content": "…?", "message_id": message_id})
        print(entry.session_id, message_id, sep="\t", flush=True)
        if platform in FINISHED:
            store.end_turn(token)
    print("in mid-turn", flush=True)
    time.sleep(60)


def before_the_kill(platform: Platform) -> str:
    return f"{platform.value} before the kill"


def kill_in_mid_turn(folder: Path, clock: FastClock, ledger: Ledger) -> bool:
    """Start a gateway, kill it in mid-turn; whether it was still alive until then."""
    command = [sys.executable, "-m", "examples.demo.crash", str(folder), clock().isoformat()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        for line in child.stdout or ():
            if line == "in mid-turn\n":
                child.kill()
                break
            session_id, message_id = line.rstrip("\n").split("\t")
            ledger.deliveries += 1
            ledger.acknowledge(session_id, message_id)
    return child.returncode == -signal.SIGKILL


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2])
