"""The effort of the suite, and the seed that every choice of chance follows.

`make test` makes the same choices every time, so nobody's change fails by chance; `make soak` (SOAK=10) tries more,
each time from another seed, which it prints. FAULT_SEED repeats one.
"""

import os
import random

USUAL = 20260701
SOAK = max(1, int(os.environ.get("SOAK") or 1))
SEED = int(os.environ.get("FAULT_SEED") or (USUAL if SOAK == 1 else random.SystemRandom().randrange(1 << 32)))
os.environ["FAULT_SEED"] = str(SEED)  # the processes that the suite starts, its own workers too, choose alike
