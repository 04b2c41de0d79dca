"""Growth of a store's memory when lanes are routed: `python -m benchmarks.memory <folder> <lanes> <cached_lanes>`.

A process of its own, so that nothing else has grown it before. Touches that wait to be written are counted too.
"""

import gc
import os
import random
import sys
from pathlib import Path

from benchmarks.gateways import source, store_at


def resident() -> int:
    """Bytes of memory this process has now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(folder: str, lanes: int, cached: int) -> None:
    order = list(range(lanes))
    random.Random(7).shuffle(order)
    with store_at(folder, cached_lanes=cached, synchronous="OFF") as store:
        store.get_or_create_session(source(0))
        before = resident()
        for lane in order:
            store.get_or_create_session(source(lane))
        after = resident()
        held = int(store.metrics()["cached_lanes"])
    print(after - before, held)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
