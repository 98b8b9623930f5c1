"""What happens to trainers: killed, forked, left alone by their ledger. Against a real server."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import orjson
import pytest

from ledger.client import Reader, Recorder, actor, connect
from ledger.client.recording import sync
from ledger.client.recording.segments import START, SpoolReader
from ledger.wire import log_pb2

METRICS = {f"group/metric_{n}": n * 0.37 + 1 for n in range(100)}

SERVE = """
import sys
from pathlib import Path
from services.server.app import serve
from services.server.settings import Settings
serve(Settings(Path(sys.argv[1]), port=int(sys.argv[2]), log_level="error"), on_ready=lambda a: print(a, flush=True))
"""

TRAIN = """
import json, os, sys
from ledger.client import Recorder
address, folder = json.loads(sys.argv[1])
metrics = {f"m/{n}": n * 0.5 for n in range(50)}
with Recorder(address, run="r1", spool=folder, rank=0) as rec:
    for step in range(1, 1_000_000):
        rec.step(step, metrics)
        os.write(1, f"{rec.attempt} {step}\\n".encode())
"""


class Server:
    """A server process that may be killed and started again at its address."""

    def __init__(self, home):
        self.home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        command = [sys.executable, "-c", SERVE, str(self.home), str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout.readline(), "the server did not start"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def served(home):
    server = Server(home)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def recorded(address):
    """Headers and payloads of everything of the run."""
    with connect(address) as connection:
        found = Reader(connection).events(streams=["run/r1"])
        return [(orjson.loads(e.header), orjson.loads(e.payload)) for e in found]


def steps_of(events):
    return [(p["attempt"], s["step"]) for h, p in events if h["type"] == "steps.logged" for s in p["steps"]]


def assert_each_number_once(events):
    counted = Counter((h["producer"]["epoch"], h["producer"]["seq"]) for h, _ in events)
    assert set(counted.values()) == {1}
    for epoch in {e for e, _ in counted}:
        numbers = sorted(seq for e, seq in counted if e == epoch)
        assert numbers == list(range(1, len(numbers) + 1))


def test_trainers_killed_at_any_moment_lose_nothing_that_was_recorded_and_double_nothing(tmp_path):
    chance = random.Random(7)
    told = []
    with served(tmp_path / "home") as server:
        for address in (server.address, None, server.address, server.address):
            child = subprocess.Popen(
                [sys.executable, "-c", TRAIN, json.dumps([address, str(tmp_path / "spool")])], stdout=subprocess.PIPE
            )
            told.append(child.stdout.readline())
            time.sleep(chance.uniform(0.0, 0.4))
            child.send_signal(signal.SIGKILL)
            told += child.stdout.readlines()
            child.wait()
            child.stdout.close()
        with connect(server.address) as connection:
            done = sync(tmp_path / "spool", connection)
        events = recorded(server.address)
    # A line may be cut where the process was killed.
    known = [tuple(map(int, line.split())) for line in told if line.endswith(b"\n")]
    assert done.left == 0
    steps = steps_of(events)
    assert len(set(steps)) == len(steps)
    assert set(known) <= set(steps)
    assert len(known) > 100
    assert_each_number_once(events)
    reports = [p for h, p in events if h["type"] == "recording.reported"]
    assert [(r["epoch"], r["closed"]) for r in reports] == [(n, False) for n in (1, 2, 3, 4)]
    last = Counter(h["producer"]["epoch"] for h, _ in events)
    assert [r["last_seq"] for r in reports] == [last[n] - 1 for n in (1, 2, 3, 4)]


def test_a_thousand_steps_with_the_server_killed_and_away_for_a_part_miss_and_double_nothing_and_never_wait(tmp_path):
    with served(tmp_path / "home") as server:
        rec = Recorder(server.address, run="r1", spool=tmp_path / "spool", rank=0, close_timeout=60, by=actor("t"))
        took = []
        for step in range(1, 1001):
            if step == 300:
                server.kill()
            if step == 700:
                server.start()
            started = time.perf_counter()
            rec.step(step, METRICS, weight_version=step - 1)
            took.append(time.perf_counter() - started)
            time.sleep(0.0005)
        report = rec.close()
        events = recorded(server.address)
    assert report.complete, report
    assert steps_of(events) == [(1, step) for step in range(1, 1001)]
    assert_each_number_once(events)
    assert sorted(took)[len(took) // 2] < 0.002
    assert max(took) < 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_childs_recorder_does_nothing_and_the_parents_goes_on(tmp_path):
    rec = Recorder(None, run="r1", spool=tmp_path / "spool", rank=0)
    rec.step(1, METRICS)
    child = os.fork()
    if child == 0:
        quiet = rec.step(2, METRICS) is None and not rec.active and rec.close().spool is None
        os._exit(0 if quiet else 1)
    assert os.waitpid(child, 0)[1] == 0
    rec.step(3, METRICS)
    report = rec.close()
    assert report.recorded == 3


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_may_open_a_recorder_of_its_own_beside_the_parents(tmp_path):
    rec = Recorder(None, run="r1", spool=tmp_path / "spool", rank=0)
    child = os.fork()
    if child == 0:
        own = Recorder(None, run="r1", spool=tmp_path / "spool", rank=0)
        told = own.step(1, METRICS)
        own.close()
        os._exit(0 if told and own.spool == tmp_path / "spool-2" else 1)
    assert os.waitpid(child, 0)[1] == 0
    rec.close()


STRUCK = """
import itertools, signal, sys
from ledger.client import Recorder
numbers = itertools.count(1)
rec = Recorder(None, run="r1", spool=sys.argv[1], rank=0)
signal.signal(signal.SIGALRM, lambda *_: rec.step(next(numbers), {"m": 1.0}))
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
for _ in range(20_000):
    rec.step(next(numbers), {"m": 0.0})
signal.setitimer(signal.ITIMER_REAL, 0)
print(next(numbers) - 1, flush=True)
rec.close()
"""


def test_a_signals_handler_may_record_in_the_midst_of_recording(tmp_path):
    command = [sys.executable, "-c", STRUCK, str(tmp_path / "spool")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    records = SpoolReader(tmp_path / "spool", START).take(100_000, 1 << 30)
    drafts = [log_pb2.Draft.FromString(r.body) for r in records]
    given = int(done.stdout)
    assert given > 20_000
    assert sorted(d.producer.seq for d in drafts) == list(range(1, given + 2))
    steps = [orjson.loads(d.payload)["steps"][0]["step"] for d in drafts if d.type == "steps.logged"]
    assert sorted(steps) == list(range(1, given + 1))


FORGETFUL = """
import sys
from ledger.client import Recorder
rec = Recorder(sys.argv[1], run="r1", spool=sys.argv[2], rank=0)
rec.step(1, {"m": 1.0})
"""


def test_a_program_that_forgets_to_close_still_sends_and_reports(tmp_path):
    with served(tmp_path / "home") as server:
        command = [sys.executable, "-W", "error", "-c", FORGETFUL, server.address, str(tmp_path / "spool")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        events = recorded(server.address)
    assert [h["type"] for h, _ in events] == ["steps.logged", "recording.reported"]


def test_a_program_that_cannot_send_ends_in_time_and_says_what_to_run(tmp_path):
    forgetful = FORGETFUL.replace("rank=0", "rank=0, close_timeout=0.5")
    command = [sys.executable, "-c", forgetful, "127.0.0.1:9", str(tmp_path / "spool")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0
    assert f"ledger sync {tmp_path / 'spool'}" in done.stderr


@pytest.mark.parametrize("module", ["torch", "sqlalchemy", "ledger.log", "services"])
def test_importing_the_recorder_imports_nothing_of_the_server_or_of_a_trainer(module):
    code = f"import ledger.client.recording, sys; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
