"""Hold a lock from Python: python3 hold.py NAME

`holdfast hold` holds the lock as long as its standard input is open, and tells on
its standard output, one JSON object per line, when it has it and when it is lost. The
end of its output is the end of the lock as well: then it was killed, say.

STEPS is how many steps the work has, PAUSE the seconds that each takes.
"""
import json
import os
import subprocess
import sys
import threading
import time


def stop():
    """Ends this program at once, whatever it is doing: the lock may be another's."""
    print("the lock is lost: stopping", file=sys.stderr, flush=True)
    os._exit(76)


class Lock:
    def __init__(self, name, *options, on_lost=stop):
        self.process = subprocess.Popen(
            ["holdfast", "hold", *options, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"no lock: exit status {self.process.wait()}")
        self.token = json.loads(line)["token"]
        self.releasing = False
        self.on_lost = on_lost
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            if '"event":"lost"' in line:
                break
        if not self.releasing:
            self.on_lost()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.releasing = True
        self.process.stdin.close()  # the end of input releases the lock
        if self.process.wait() != 0:
            self.on_lost()


if __name__ == "__main__":
    with Lock(sys.argv[1], *sys.argv[2:]) as lock:
        for step in range(int(os.environ.get("STEPS", 3))):
            print(f"step {step} under token {lock.token}", flush=True)
            time.sleep(float(os.environ.get("PAUSE", 0)))
    print("released")
