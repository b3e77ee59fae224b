"""A job under a lock: python3 job.py NAME [OPTION OF holdfast hold...], with the package holdfast-locks.

STEPS is how many steps the work has, PAUSE the seconds that each takes.
"""
import os
import sys
import time

import holdfast

try:
    with holdfast.lock(sys.argv[1], options=sys.argv[2:]) as guard:
        for step in range(int(os.environ.get("STEPS", 3))):
            print(f"step {step} under token {guard.token}", flush=True)
            time.sleep(float(os.environ.get("PAUSE", 0)))
    print("released")
except holdfast.Busy as busy:
    print(busy, file=sys.stderr)
    sys.exit(75)
except holdfast.Lost:
    print("the lock is lost: stopping", file=sys.stderr)
    sys.exit(76)
