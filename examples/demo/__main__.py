"""`python -m examples.demo FOLDER`: a killed writer, a gateway's days, and what can be asked about them.

The folder is made anew, and keeps the gateway's store. The status says whether all is as it should be.
"""

import asyncio
import shutil
import sys
import time
from pathlib import Path

from engine import SessionStore
from engine.log import EventLog
from engine.reader import FILE_NAME
from examples.demo.ask import ask_and_erase
from examples.demo.chats import BEGIN, CHATS, CONFIG, Conversations, FastClock, Ledger
from examples.demo.crash import kill_in_mid_turn
from examples.demo.report import Report, show
from examples.demo.restart import break_the_tables, restart
from examples.demo.writer import kill_a_writer

DAYS = 3


def serve(folder: Path, clock: FastClock, ledger: Ledger) -> None:
    with SessionStore(folder, CONFIG, clock=clock) as store:
        asyncio.run(Conversations(store, clock, ledger).days(DAYS))


def run_a_gateway(folder: Path) -> bool:
    """Days on eight platforms, a kill, a restart, and what the log says about it all."""
    clock, ledger = FastClock(), Ledger()
    started = time.perf_counter()
    print(
        f"\n2. A gateway serves {len(CHATS)} platforms for {DAYS} days on a fast clock and is killed in mid-turn. ",
        end="",
    )
    print("Its tables\n   are emptied behind its back. It is started again.\n", flush=True)
    serve(folder, clock, ledger)
    killed = kill_in_mid_turn(folder, clock, ledger)
    break_the_tables(folder, clock, ledger)
    went_on = asyncio.run(restart(folder, clock, ledger))
    days = (clock() - BEGIN).days
    show("days passed", days, f"in {time.perf_counter() - started:.1f} s")
    return killed and went_on and days == DAYS and tell(folder, ledger)


def tell(folder: Path, ledger: Ledger) -> bool:
    """The table of what happened, and the log against what was acknowledged."""
    with EventLog(folder / FILE_NAME, read_only=True) as log:
        report = Report(log.events())
        verification = log.verify()
    lost = ledger.acknowledged - set(report.messages)
    found = sum(report.messages.values())
    doubled = [message for message, count in report.messages.items() if count > 1]
    print()
    report.print_table()
    print()
    show("acknowledged messages", len(ledger.acknowledged))
    show("found in the log", found)
    show("lost", len(lost))
    show("doubled", len(doubled))
    show("delivered again and refused", ledger.deliveries - found, f"of {ledger.deliveries} deliveries")
    show("most live sessions on a lane", report.most_live)
    show("turns cut off, then resumed", f"{report.total('cut off')}, {report.total('resumed')}")
    show("hash chain", "verified" if verification.ok else "BROKEN", verification.problem or "")
    print(f"  head {verification.head}\n")
    complete = not lost and not doubled and found == len(ledger.acknowledged)
    return complete and verification.ok and report.most_live == 1 and report.total("cut off") == report.total("resumed")


def main(folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    ok = kill_a_writer()
    ok = run_a_gateway(folder) and ok
    ok = ask_and_erase(folder) and ok
    print("Nothing acknowledged was lost." if ok else "FAILED: something is not as it should be; see above.")
    return 0 if ok else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m examples.demo FOLDER, which is made anew")
    sys.exit(main(Path(sys.argv[1])))
