"""`python -m tests.simulation --seed N --steps M` replays a run; `--seeds A-B` tries many."""

import argparse
import os
import sys

from tests.simulation.run import STEPS, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", default="1-20")
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1) if given.seed is None else [given.seed]
    steps, seconds, failed = 0, 0.0, 0
    for seed in seeds:
        result = simulate(seed, given.steps)
        steps, seconds = steps + result.steps, seconds + result.seconds
        troubles = ", ".join(f"{count} {what}" for what, count in result.troubles.items())
        print(f"seed {seed}: {result.steps} steps, {result.calls} calls, trace {result.trace}; {troubles}", flush=True)
        if result.problem is not None:
            failed += 1
            print(f"FAILED seed {seed}: {result.problem}\n{result.last_commands}\n{result.last_steps}", flush=True)
    print(f"{len(seeds)} seeds, {failed} failed, {steps / seconds * 60:,.0f} steps per minute")
    return 1 if failed else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets must not differ from run to run.
        again = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, again, os.environ | {"PYTHONHASHSEED": "0"})  # noqa: S606 - no shell is needed
    sys.exit(main())
