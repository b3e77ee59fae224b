"""Hold a lock from Python: python3 hold.py NAME

`holdfast hold` holds the lock as long as its standard input is open, and tells on
its standard output, one JSON object per line, when it has it and when it is lost.
"""
import json
import subprocess
import sys
import threading


class Lock:
    def __init__(self, name, *options):
        self.process = subprocess.Popen(
            ["holdfast", "hold", *options, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lost = threading.Event()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"no lock: exit status {self.process.wait()}")
        self.token = json.loads(line)["token"]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            if json.loads(line)["event"] == "lost":
                self.lost.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()  # the end of input releases the lock
        self.process.wait()


if __name__ == "__main__":
    with Lock(sys.argv[1], *sys.argv[2:]) as lock:
        for step in range(3):
            if lock.lost.is_set():
                sys.exit("the lock is lost: stopping")
            print(f"step {step} under token {lock.token}")
    print("released")
