"""What the bridge asks when a rule is broken: facts are gathered, the engine decides, the policy in force says what
becomes of it. Also puts in place, once a process, all that a watched program needs.
"""

from __future__ import annotations

import _thread
import functools
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from locus import faults
from locus._load import load_bridge
from locus.after_import import after_import
from locus.errors import PlacementWarning
from locus.program import graphed_calls, places, source

if TYPE_CHECKING:
    import types

    from locus._bridge import Bridge
    from locus.program import shapes
    from locus.program.raw_shapes import RawCase, RawGraph, RawRace
    from locus.program.shapes import Case, Location


RAISE, COLLECT, WARN, MOVE = range(4)
"""The policies by the bridge's numbers."""

CLOSED = -1
"""The state of a thread that nobody watches: operators raise as PyTorch's own do."""

at_finding: Callable[[list[types.FrameType]], None] | None = None
"""Called with the program's own frames at each finding, where somebody wants to look around then."""

at_change: Callable[[], None] | None = None
"""Called after each new finding, where somebody keeps a report up to date."""

_ERRORS = {"numpy": TypeError, "from_dlpack": BufferError}
"""What host access raises without a check."""

_MAX_WARNED = 20_000


class _WorkItem(Protocol):
    _locus_policy: int


_installed = False
_threads_watched = False
_warned: set[str] = set()


def install() -> Bridge:
    """The bridge, ready to report; the devices must be simulated already."""
    global _installed
    bridge = load_bridge()
    bridge.set_reporter(report)
    if not _installed:
        _installed = True
        from locus.watch import forked, gradients, hooks, host_access, replicas

        hooks.install_hooks()
        hooks.on_growth(_look_for_leaks)
        watch_threads(bridge)
        host_access.install(bridge)
        gradients.install(bridge)
        replicas.install(bridge)
        forked.install(bridge)
    return bridge


def report(
    raw: RawCase | RawRace | RawGraph, frame: types.FrameType | None = None, thread: int = 0
) -> tuple[bool, str, Callable[[], None] | None]:
    """Called by the bridge for each distinct mistake, on a thread of Locus's own while the program's waits:
    (the program wants the error, where the operands belong, what to call on the program's own thread or None).

    `frame`: where that thread is; None on autograd's own threads, which have none.
    """
    import torch

    # Where the program is being traced, what is read here is no part of its graph.
    tracing = torch._C._get_tracing_state()
    if tracing is not None:
        torch._C._set_tracing_state(None)  # type: ignore[attr-defined]
    try:
        # Nor does a tensor of a class of the program's own get a say in how it is looked at.
        with (
            places.standing_at(frame, thread),
            places.alone(bool(raw.get("alone", False))),
            source.at_one_moment(),
            torch._C.DisableTorchFunctionSubclass(),
        ):
            if raw["kind"] == "race":
                return _report_race(raw)
            return _report_graph(raw) if raw["kind"] == "graph" else _report(raw, frame)
    finally:
        if tracing is not None:
            torch._C._set_tracing_state(tracing)  # type: ignore[attr-defined]


def _report_graph(raw: RawGraph) -> tuple[bool, str, Callable[[], None] | None]:
    """A mistake with a CUDA graph, or what may become one."""
    from locus.blame import bound_inputs, kept_outputs
    from locus.program import captured_numbers, histories

    bound = bound_inputs.find(raw["op"]) if raw["what"] == "bound" else None
    if (raw["what"] == "bound" and bound is None) or (raw["what"] == "freed" and bound_inputs.explains(raw["first"])):
        return False, "", None
    kept, frames = None, places.frames_here() if raw["what"] in ("numbers", "kept") else []
    try:
        if raw["what"] == "numbers":
            captured_numbers.note(raw["words"], frames)
            return False, "", None
        if raw["what"] == "kept" and (kept := kept_outputs.judge(frames)) is None:
            return False, "", None
    finally:
        places.release_locals(frames)
    unknown = places.unknown_location()
    use, first = (histories.site_location(site) or unknown for site in (raw["site"], raw["first"]))
    facts = {
        "what": raw["what"], "use": use, "first": first, "op": raw["op"], "words": raw["words"], "fixes": [],
        "step": int(raw.get("step", 0)), "in_backward": raw.get("in_backward", False),
    }  # fmt: skip
    if kept is not None:
        facts |= {"first": kept.at, "op": kept.name, "words": str(kept.times or ""),
                  "fixes": [kept.edit] if kept.edit is not None else []}  # fmt: skip
    if raw["what"] == "saved":
        late = graphed_calls.later
        facts |= {"first": graphed_calls.earlier, "words": f"{os.path.basename(late['file'])}:{late['line']}"}
    if bound is not None:
        facts |= {"first": bound.at, "fixes": [bound.edit] if bound.edit is not None else []}
    directory = os.getcwd() if raw.get("policy", COLLECT) == WARN else ""
    told = load_bridge().add_graph_mistake(json.dumps(facts), raw.get("key", 0), directory)
    note_change()
    return False, "", functools.partial(_warn_all, told, use) if told else None


def _report_race(raw: RawRace) -> tuple[bool, str, Callable[[], None] | None]:
    """Two accesses that nothing orders. PyTorch has no error for that: there is nothing to raise."""
    from locus.blame import races

    bridge = load_bridge()
    if at_finding is not None:
        try:
            at_finding(places.user_frames(places.frames_here()))
        except BaseException as error:
            faults.note("a look around", error)
    directory = os.getcwd() if raw.get("policy", COLLECT) == WARN else ""
    race = races.build(raw)
    told = bridge.add_race(json.dumps(race), raw.get("key", 0), directory)
    note_change()
    return False, "", functools.partial(_warn_all, told, race["second"]["at"]) if told else None


def _report(raw: RawCase, frame: types.FrameType | None) -> tuple[bool, str, Callable[[], None] | None]:
    from locus.blame import facts
    from locus.watch import handlers

    bridge = load_bridge()
    if "held" in raw:
        return _report_memory(raw, frame)
    policy = raw.get("policy", COLLECT)
    wanted, caught_by = handlers.GO_ON, None
    if policy == COLLECT and raw["kind"] != "read-too-early":  # PyTorch has no error for that one
        wanted, caught_by = handlers.find_handler(frame, _ERRORS.get(raw["overload"], RuntimeError))
    raw["caught_by"] = caught_by
    try:
        case = facts.build_case(raw)
        if not case["use"]["line"]:
            case["use"] = _poor_case(raw)["use"]
        case["caught_by"] = caught_by
        case["replica"] = places.in_replica(places.walk(frame))
        _note_source(bridge, raw, case)
    except BaseException as error:  # nothing that is meant for the program comes to this thread
        faults.note("the facts of a finding", error)
        case = _poor_case(raw)
    if wanted == handlers.RAISE:
        return True, "", None  # the program means to catch it: no mistake of placement, a question it asks
    if policy == MOVE:
        return False, bridge.blame_device(json.dumps(case)), None
    if at_finding is not None:
        try:
            at_finding(places.user_frames(places.frames_here()))
        except BaseException as error:
            faults.note("a look around", error)
    directory = os.getcwd() if policy == WARN else ""
    try:
        device, told = bridge.add_case(json.dumps(case), raw.get("key", 0), directory)
    except BaseException as error:
        faults.note("the words of a finding", error)
        case = _poor_case(raw)
        device, told = bridge.add_case(json.dumps(case), raw.get("key", 0), directory)
    note_change()
    # The program's filters and its own showwarning() are for its own thread.
    return False, device, functools.partial(_warn_all, told, case["use"]) if told else None


def _report_memory(raw: RawCase, frame: types.FrameType | None) -> tuple[bool, str, Callable[[], None] | None]:
    """A dry run needs more memory than the card has."""
    import torch

    from locus.watch import handlers, out_of_memory

    if handlers.find_handler(frame, torch.cuda.OutOfMemoryError)[0] == handlers.RAISE:
        return True, "", None  # to try again with less, say
    try:
        found = out_of_memory.in_dry_run(raw["held"], raw.get("step", 0))
    except Exception as error:
        faults.note("memory that has run out", error)
        found = None
    if found is not None:
        load_bridge().add_finding(json.dumps(found), raw.get("key", 0))
        note_change()
    return False, "", None


def _look_for_leaks() -> None:
    """A step has ended, and a line has left more behind in each of the last ones."""
    import torch

    from locus.watch import leaks

    bridge, frame, thread = load_bridge(), sys._getframe(1), threading.get_ident()
    if bridge.policy_state() != COLLECT:
        return

    def look() -> None:
        with places.standing_at(frame, thread), source.at_one_moment(), torch._C.DisableTorchFunctionSubclass():
            frames = places.frames_here()
            try:
                warnings = leaks.look(bridge, frames, torch.cuda.device_count())
            finally:
                places.release_locals(frames)
            for found in warnings:
                bridge.add_finding(json.dumps({**found, "first_step": bridge.steps()}))
                note_change()

    bridge.aside(look)


def _poor_case(raw: RawCase) -> Case:
    """What the bridge itself knows of a mistake, for when all else has failed: a finding that says little is true."""
    file, line, function = "", 0, ""
    found = load_bridge().site_location(raw.get("site", 0))
    if found:
        file, line, function = found[0], found[1], found[5]
    use: Location = {**places.unknown_location(), "file": file, "line": line, "end_line": line, "function": function}
    overload = str(raw.get("overload", ""))
    operands = [{"argument": str(operand.get("argument", "")), "odd": bool(operand.get("odd")), "rule": "same",
                 "device": str(getattr(operand.get("tensor"), "device", "")), "name": "", "kind": "temporary"}
                for operand in raw.get("operands", [])]  # fmt: skip
    return {
        "kind": raw.get("kind", "operator"), "op": overload.partition("::")[2].partition(".")[0] or overload,
        "overload": overload, "error": str(raw.get("error", "")), "use": use, "library": None, "stack": [use],
        "in_backward": False, "forward": None, "step": int(raw.get("step", 0)), "caught_by": None,
        "device": str(raw.get("device", "")),
        "operands": cast("list[shapes.Operand]", operands),
    }  # fmt: skip


def add_case(case: Case) -> str:
    """Keeps the findings of a case that Python itself has seen; the device where its operands belong."""
    device, _ = load_bridge().add_case(json.dumps(case))
    note_change()
    return device


def note_change() -> None:
    """A finding is new."""
    if at_change is not None:
        at_change()


def forget_warnings() -> None:
    """What was warned about may be warned about again: another part of the program begins."""
    _warned.clear()


def _warn_all(told: list[tuple[str, str]], use: Location) -> None:
    for cause, text in told:
        _warn(cause, text, use)


def _warn(cause: str, text: str, use: Location) -> None:
    """Once a cause, at the line where PyTorch would have raised; the program's own filters decide what becomes of it.

    A warning that a filter makes an exception of is raised again the next time.
    """
    if cause in _warned:
        return
    warnings.warn_explicit(text.rstrip("\n"), PlacementWarning, use["file"] or "<unknown>", use["line"])
    if len(_warned) < _MAX_WARNED:
        _warned.add(cause)


def _note_source(bridge: Bridge, raw: RawCase, case: Case) -> None:
    """Whether one line made an operand here and its like elsewhere: a source that is not consistent."""
    from locus.program import histories, moments, values

    for operand, facts in zip(raw["operands"], case["operands"]):
        tensor = operand.get("tensor")
        if not values.is_tensor(tensor):
            continue
        for step in bridge.origin_chain(tensor):
            if step["placement"] == "derived" or not step["site"]:
                continue
            if histories.is_received(step) and not moments.batches_vary():
                continue  # the parts of each batch are on several devices, and always on the same
            made = bridge.made_at(step["site"])
            if len(made) > 1:
                facts["made_here"], facts["made_at"] = made, histories.site_location(step["site"])
                break


def watch_threads(bridge: Bridge) -> None:
    """A Python thread has the policy of the one that started it; the work of a pool that of the one that handed it in.

    The door is each thread's own: without this, what runs in a thread would pass unseen. Once a process.
    """
    global _threads_watched
    if _threads_watched:
        return
    _threads_watched = True
    start, bootstrap = threading.Thread.start, threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    @functools.wraps(start)
    def start_with_policy(self: threading.Thread) -> None:
        self._locus_policy = bridge.policy_state()  # type: ignore[attr-defined]
        start(self)

    @functools.wraps(bootstrap)
    def bootstrap_with_policy(self: threading.Thread) -> None:
        bridge.set_policy_state(self.__dict__.pop("_locus_policy", CLOSED))
        bootstrap(self)

    threading.Thread.start = start_with_policy
    threading.Thread._bootstrap_inner = bootstrap_with_policy  # type: ignore[attr-defined]
    _watch_bare_threads(bridge)
    after_import("torch.distributed.rpc.internal", functools.partial(_watch_remote_calls, bridge))
    after_import("concurrent.futures.thread", functools.partial(_watch_pools, bridge))


def _watch_pools(bridge: Bridge, pools: types.ModuleType) -> None:
    """What is handed to a pool runs under the policy of who handed it in."""
    item = getattr(pools, "_WorkItem", None)
    if item is None:
        return
    make, run = item.__init__, item.run

    @functools.wraps(make)
    def make_with_policy(self: _WorkItem, *arguments: object, **options: object) -> None:
        make(self, *arguments, **options)
        self._locus_policy = bridge.policy_state()

    @functools.wraps(run)
    def run_with_policy(self: _WorkItem, *arguments: object, **options: object) -> object:
        before = bridge.set_policy_state(getattr(self, "_locus_policy", CLOSED))
        try:
            return run(self, *arguments, **options)
        finally:
            bridge.set_policy_state(before)

    item.__init__, item.run = make_with_policy, run_with_policy


def _watch_bare_threads(bridge: Bridge) -> None:
    """Those that a program starts below the module threading."""
    start: Callable[..., int] = _thread.start_new_thread

    @functools.wraps(start)
    def start_new_thread(function: Callable[..., object], *rest: object) -> int:
        return start(bridge.PolicyCall(function, bridge.policy_state()) if callable(function) else function, *rest)

    _thread.start_new_thread = _thread.start_new = start_new_thread


def _watch_remote_calls(bridge: Bridge, internal: types.ModuleType) -> None:
    """What another process asks for by torch.distributed.rpc runs in a thread of PyTorch's."""
    run = internal._run_function

    @functools.wraps(run)
    def run_seen(function: object) -> object:
        bridge.see_thread()
        return run(function)

    internal._run_function = run_seen  # type: ignore[attr-defined]
