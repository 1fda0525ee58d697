"""What can come in between while Locus explains: the program's signals, exceptions raised in its threads, its trace
function, its recursion limit, its filters, and objects that refuse to be looked at.

In each of these programs something happens in the very middle of an explanation. The program must get what is its own,
where it would have got it; the finding must be kept; and nothing may look like a fault of Locus's.
"""

from __future__ import annotations

import pytest
from checker import check_source

# `in_the_middle` is called while a finding is being explained.
PREPARED = """\
import ctypes, gc, os, signal, sys, threading, time, warnings, weakref
import torch
from torch import nn
import locus.blame.facts

x = torch.ones(3, device="cuda")
events = []
in_the_middle = None
build_case = locus.blame.facts.build_case

def build_case_with_events(*given, **named):
    if in_the_middle is not None:
        in_the_middle()
    return build_case(*given, **named)

locus.blame.facts.build_case = build_case_with_events

class Late(Exception): pass
class Ended(BaseException): pass

def send(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)
    time.sleep(0.02)

"""

# name: (program, what it prints, how many findings it has)
PROGRAMS = {
    "a handler raises": (
        """
def ring(number, frame):
    events.append((frame.f_code.co_name, threading.current_thread() is threading.main_thread()))
    raise Late
signal.signal(signal.SIGALRM, ring)
in_the_middle = lambda: send(signal.SIGALRM)
seen = 0
for number in range(4):
    try:
        if number == 0: z = x + torch.ones(3)
        if number == 1: z = x * torch.ones(3)
        if number == 2: z = x - torch.ones(3)
        if number == 3: z = x / torch.ones(3)
        len(events)
    except Late:
        seen += 1
print(seen, set(events))
""",
        "4 {('<module>', True)}",
        4,
    ),
    "a handler raises what is no Exception": (
        """
def ring(number, frame): raise Ended
signal.signal(signal.SIGUSR1, ring)
in_the_middle = lambda: send(signal.SIGUSR1)
try:
    z = x + torch.ones(3)
    len(events)
except Ended:
    print("seen")
""",
        "seen",
        1,
    ),
    "Ctrl-C": (
        """
in_the_middle = lambda: send(signal.SIGINT)
try:
    z = x + torch.ones(3)
    len(events)
except KeyboardInterrupt:
    print("seen")
""",
        "seen",
        1,
    ),
    "a timer, a profiler, a child": (
        """
class Handler:
    def __call__(self, number, frame):
        events.append(signal.Signals(number).name)
        if number == signal.SIGPROF: raise Late
for number in (signal.SIGCHLD, signal.SIGPROF, signal.SIGVTALRM):
    signal.signal(number, Handler())
in_the_middle = lambda: send(signal.SIGCHLD, signal.SIGPROF, signal.SIGVTALRM)
try:
    z = x + torch.ones(3)
    len(events)
    print("not here")
except Late:
    pass
print(sorted(events))
""",
        "['SIGCHLD', 'SIGPROF', 'SIGVTALRM']",
        1,
    ),
    "a handler that does not raise runs once, and the operator has its result": (
        """
signal.signal(signal.SIGTERM, lambda number, frame: events.append(number))
in_the_middle = lambda: send(signal.SIGTERM)
z = x + torch.ones(3)
print(z.sum().item(), len(events), signal.getsignal(signal.SIGTERM).__name__)
""",
        "6.0 1 <lambda>",
        1,
    ),
    "a wakeup file": (
        """
import socket
ours, theirs = socket.socketpair()
theirs.setblocking(False)
signal.set_wakeup_fd(theirs.fileno())
signal.signal(signal.SIGUSR2, lambda *_: None)
in_the_middle = lambda: send(signal.SIGUSR2)
z = x + torch.ones(3)
print(ours.recv(1) == bytes([signal.SIGUSR2]), signal.set_wakeup_fd(-1) == theirs.fileno())
""",
        "True True",
        1,
    ),
    "an exception raised in the thread by another": (
        """
def throw():
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.main_thread().ident), ctypes.py_object(Late))
in_the_middle = throw
try:
    z = x + torch.ones(3)
    for number in range(1000): len(events)
except Late:
    print("seen")
""",
        "seen",
        1,
    ),
    "an exception raised in a thread of the program's own": (
        """
def work():
    ident = threading.get_ident()
    global in_the_middle
    def throw():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Late))
    in_the_middle = throw
    try:
        z = x + torch.ones(3)
        for number in range(1000): len(events)
    except Late:
        print("seen")
thread = threading.Thread(target=work)
thread.start()
thread.join()
""",
        "seen",
        1,
    ),
    "a trace function": (
        """
files = set()
def trace(frame, event, argument):
    files.add(frame.f_code.co_filename)
    if "locus" in frame.f_code.co_filename and "explaining" in frame.f_code.co_filename:
        raise Late
    return trace
sys.settrace(trace)
def use():
    return x + torch.ones(3)
z = use()
sys.settrace(None)
print([file for file in files if file.endswith("locus/blame/facts.py")], z.sum().item())
""",
        "[] 6.0",
        1,
    ),
    "a recursion limit that is all but used up": (
        """
def deep():
    try:
        return deep()
    except RecursionError:
        return x + y
y = torch.ones(3)
print(deep().sum().item())
""",
        "6.0",
        1,
    ),
    "a small recursion limit": (
        """
y = torch.ones(3)
limit = sys.getrecursionlimit()
sys.setrecursionlimit(80)
z = x + y
print(sys.getrecursionlimit(), z.sum().item())
sys.setrecursionlimit(limit)
""",
        "80 6.0",
        1,
    ),
    "warnings are errors": (
        """
warnings.simplefilter("error")
z = x + torch.ones(3)
print(z.sum().item())
""",
        "6.0",
        1,
    ),
    "the garbage collector calls back": (
        """
class Cycle:
    def __init__(self): self.me = self
    def __del__(self): raise Late
def collect():
    Cycle()
    gc.collect()
gc.callbacks.append(lambda phase, info: (_ for _ in ()).throw(Late()))
kept = Cycle()
kept.me = None
weak = weakref.ref(kept, lambda _: (_ for _ in ()).throw(Late()))
del kept
sys.unraisablehook = lambda *_: events.append(1)
in_the_middle = collect
z = x + torch.ones(3)
gc.callbacks.clear()
print(z.sum().item(), len(events) > 0)
""",
        "6.0 True",
        1,
    ),
    "objects that refuse to be looked at": (
        """
class Shy:
    def __getattr__(self, name): raise Ended(name)
    def __hash__(self): raise Ended
    def __eq__(self, other): raise Ended
    def __bool__(self): raise Ended
    def __len__(self): raise Ended
    def __iter__(self): raise Ended
    def __repr__(self): raise Ended
    def __str__(self): raise Ended
class Odd(dict):
    def items(self): raise Ended
    def values(self): raise Ended
    def __iter__(self): raise Ended
class Sly(type):
    def __getattribute__(cls, name):
        if name in ("__module__", "__mro__"): raise Ended
        return super().__getattribute__(name)
class Hidden(metaclass=Sly): pass
shy, odd, hidden = Shy(), Odd(a=1), Hidden()
class Holder:
    def __init__(self):
        self.shy, self.y = Shy(), torch.ones(3)
    @property
    def device(self): raise Ended
def use(holder, shy):
    return x + holder.y
print(use(Holder(), shy).sum().item())
""",
        "6.0",
        1,
    ),
    "a tensor that refuses": (
        """
class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name not in ("add", "__add__", "__radd__", "sum", "item"):
            raise Ended(name)
        return super().__torch_function__(function, types, args, kwargs or {})
y = torch.ones(3).as_subclass(Refusing)
with torch._C.DisableTorchFunctionSubclass():
    z = x + y
z = x + y
print("here")
""",
        "here",
        1,
    ),
    "a table of names that changes while it is read": (
        """
stop = False
def churn():
    number = 0
    while not stop:
        number += 1
        globals()[f"name_{number % 50}"] = object()
        globals().pop(f"name_{(number + 25) % 50}", None)
thread = threading.Thread(target=churn)
thread.start()
z = x + torch.ones(3)
stop = True
thread.join()
print(z.sum().item())
""",
        "6.0",
        1,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_the_middle(program, name):
    text, printed, count = PROGRAMS[name]
    checked = check_source(program, PREPARED + text)
    assert checked.stdout.strip() == printed, checked.result.describe()
    assert len(checked.findings) == count, checked.findings
    assert all(finding["cause"]["line"] for finding in checked.findings)
    assert checked.report["notes"] == [], checked.report["notes"]
    assert checked.result.code == 1, checked.result.describe()


KILLED_WORKER = """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return torch.ones(3), index
iterator = iter(torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1))
worker = iterator._workers[0]
def kill():
    os.kill(worker.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    time.sleep(0.05)
batch, _ = next(iterator)
in_the_middle = kill
z = x + batch
print("still here" if len(events) else "not yet")
print("went on without its worker")
"""


def test_a_loader_still_says_that_a_worker_died(program):
    """DataLoader raises it from its handler of SIGCHLD, at once: the program must not wait for a dead worker."""
    checked = check_source(program, PREPARED + KILLED_WORKER)
    assert "went on" not in checked.stdout, checked.result.describe()
    assert "DataLoader worker" in checked.result.stderr and "killed" in checked.result.stderr
    assert [finding["code"] for finding in checked.findings] == ["LOC005"], checked.findings
    assert not any("a fault inside Locus" in note for note in checked.report["notes"])


NOTED = """
net = nn.Linear(3, 3)
def ring(number, frame): raise Late
signal.signal(signal.SIGALRM, ring)
import locus.program.moments
record = locus.program.moments.note_move
def record_late(*given, **named):
    signal.raise_signal(signal.SIGALRM)
    record(*given, **named)
locus.program.moments.note_move = record_late
try:
    net.to("cuda")
    print("swallowed")
except Late:
    print("seen", next(net.parameters()).device)
"""


def test_a_handler_may_raise_while_locus_notes_something(program):
    checked = check_source(program, PREPARED + NOTED)
    assert checked.stdout.strip() == "seen cuda:0", checked.result.describe()
    assert checked.report["notes"] == []
