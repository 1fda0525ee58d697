"""Two accesses that nothing orders: which lines and streams they are, by the program's own names, and the wait that is
missing, as an edit. What is known goes to the C++ side (locus/engine/races.h), which has the words.
"""

from __future__ import annotations

import ast
import gc
import inspect
import sys
import types
from typing import TYPE_CHECKING

import torch

from locus import faults
from locus.blame import facts
from locus.blame.race_places import Place, used_by
from locus.fixing import device_text, rewriting
from locus.program import expressions, histories, places, source, values

if TYPE_CHECKING:
    from locus.program.raw_shapes import RawCase, RawOperand, RawRace, RawSide
    from locus.program.shapes import Edit, Location, Operand, RaceFacts, RaceSide

CURRENT = "torch.cuda.current_stream()"
_UNKNOWN = -1
"""Instead of a device's number."""
_MOST_USED = 2
"""Tensors of an expression that are told to the allocator."""


def build(raw: RawRace) -> RaceFacts:
    """All that can be said of a race. A fault in one part does not cost the others."""
    frames = places.frames_here()
    users = [] if raw["in_backward"] else places.user_frames(frames)
    first, second = raw["first"], raw["second"]
    race = _Race(raw, users)
    fix: tuple[Edit, Location] | None = None
    operands: list[Operand] = []
    name = ""
    try:
        operands, name = race.operands(), race.name_of_memory()
    except BaseException as error:  # what an object of the program raises when it is looked at
        faults.note("the tensor of a race", error)
    try:
        fix = race.fix()
    except BaseException as error:
        faults.note("the wait of a race", error)
    built: RaceFacts = {
        "kind": race.kind,
        "first": race.side(first, race.first_at, operands),
        "second": race.side(second, race.second_at, operands),
        "cause": fix[1] if fix else race.second_at,
        "operands": operands,
        "name": name,
        "fixes": [fix[0]] if fix else [],
        "step": int(raw.get("step", 0)),
        "wait": "" if fix else race.missing(),
        "in_backward": raw["in_backward"],
    }
    places.release_locals(frames)
    return built


def _op(side: RawSide) -> str:
    """The operator's short name; "the host", where none was called."""
    return side["overload"].rpartition("::")[2].partition(".")[0] or "a kernel"


def _location(site: int) -> Location:
    return histories.site_location(site) or places.unknown_location()


class _Race:
    def __init__(self, raw: RawRace, users: list[types.FrameType]):
        self.raw, self.users = raw, users
        self.first, self.second = raw["first"], raw["second"]
        self.first_at, self.second_at = _location(self.first["site"]), _location(self.second["site"])
        for frame in users:
            source.vouch(frame.f_code, frame.f_globals)
        self.frame = next((f for f in users if f.f_code.co_filename == self.second_at["file"]), None)
        if raw["freed"]:
            self.kind = "freed"
        elif self.first["collective"] and not self._is_awaited():
            self.kind = "never-waited"
        else:
            self.kind = "overwritten" if self.second["writes"] else "read"
            self._stand_for_waiting_stream()

    def _is_awaited(self) -> bool:
        """Whether the collective's call waits for it, on its own stream: `all_reduce(x)`, without `async_op=True`."""
        place = Place.at(self.first_at)
        if place is None or not isinstance(place.node, ast.Call):
            return False
        call = place.node
        function = getattr(torch.distributed, histories.called_name(call), None)
        taken = list(inspect.signature(function).parameters) if callable(function) else []
        if "async_op" not in taken or any(each.arg is None for each in call.keywords):
            return False
        given = [each.value for each in call.keywords if each.arg == "async_op"] + call.args[taken.index("async_op") :]
        return all(isinstance(each, ast.Constant) and not each.value for each in given)

    def _stand_for_waiting_stream(self) -> None:
        """A stream that has waited for the collective is the one to wait for: the default one outside of any block."""
        place = Place.at(self.first_at) if self.first["collective"] else None
        if place is not None and place.stream_block() is None:
            self.first = {**self.first, "stream": 0, "collective": False}

    def side(self, side: RawSide, at: Location, operands: list[Operand]) -> RaceSide:
        """One of the two accesses. What fills a new tensor is called as the program has called it: `ones()`, not
        `fill_()`."""
        op = _op(side)
        made = [step for operand in operands for step in operand["history"] if step["at"] == at]
        if op.endswith("_") and made:
            place = Place.at(at)
            called = histories.called_name(place.node) if place and isinstance(place.node, ast.Call) else ""
            if callable(getattr(torch, called, None)):
                op = called
            elif made[0]["action"] == "created":
                op = made[0]["op"]
        return {"at": at, "op": op, "stream": self.words(side), "writes": side["writes"]}

    # -- names

    def words(self, side: RawSide) -> str:
        """What a stream is called in a sentence."""
        if side["device"] < 0:
            return "the host"
        if side["collective"]:
            return "a stream of the process group's"
        name = self.name_of(side)
        if name:
            return f"the stream `{name}`"
        if side["stream"] == 0:
            return f"the default stream of cuda:{side['device']}"
        made = _location(side["stream_site"])
        where = f" made at {source.path_of(made['file']).rpartition('/')[2]}:{made['line']}" if made["line"] else ""
        return f"a stream of cuda:{side['device']}{where}"

    def name_of(self, side: RawSide) -> str:
        """The program's name for a stream, where the second access happens; "" where it has none there."""
        for frame in self.users[:1] if self.frame is None else [self.frame]:
            for scope in (frame.f_locals, frame.f_globals):
                for name, value in values.at_rest(scope).items():
                    if _is_stream(value, side):
                        return name
            for name in ("self", "cls"):
                if held := self._held_by(name, frame.f_locals.get(name), side):
                    return held
            for scope in (frame.f_locals, frame.f_globals):
                for name, value in values.at_rest(scope).items():
                    if held := self._held_by(name, value, side):
                        return held
        if not self.raw["in_backward"]:
            return ""
        # No frame runs there: what the module calls it.
        shared = values.globals_of(self.second_at["file"], []) if self.second_at["line"] else {}
        return next((name for name, value in values.at_rest(shared).items() if _is_stream(value, side)), "")

    @staticmethod
    def _held_by(name: str, value: object, side: RawSide) -> str:
        """`prefetcher.stream`"""
        if isinstance(value, (type, types.ModuleType, types.FunctionType)) or values.is_tensor(value):
            return ""
        found = (attribute for attribute, held in values.attributes(value).items() if _is_stream(held, side))
        return next((f"{name}.{attribute}" for attribute in found), "")

    def expression(self, side: RawSide, place: Place) -> str:
        """An expression that is the stream, where the second access happens; "" where there is none."""
        if side["current"]:
            return self.call("current_stream", side["device"], place, self.raw["current"])
        if side["stream"] == 0:
            return self.call("default_stream", side["device"], place, self.raw["current"])
        return self.name_of(side)

    def call(self, function: str, device: int, place: Place, current: int) -> str:
        """`torch.cuda.synchronize()`, with the device where that is not the current one."""
        words = ""
        if device != current:
            words = device_text.numbered(place.file, place.statement, f"cuda:{device}", self.users)
        return f"torch.cuda.{function}({words})"

    def name_of_memory(self) -> str:
        """What the line of the second access calls memory that it uses without an operator; "" where it has no name."""
        place = Place.at(self.second_at) if self.raw["address"] and self.frame is not None else None
        if place is None or self.frame is None:
            return ""
        for node in ast.walk(place.statement):
            if isinstance(node, (ast.Name, ast.Attribute)):
                if _has_memory(values.evaluate(node, self.frame), self.raw["address"]):
                    return place.file.flat(node)
        return ""

    def operands(self) -> list[Operand]:
        """The tensor that both have, as an operand of the second access."""
        if self.raw["tensor"] is None:
            return []
        operand: RawOperand = {
            "argument": "self", "position": self.second["argument"], "index": -1, "tensor": self.raw["tensor"],
            "odd": True, "rule": "same", "written": self.second["writes"],
        }  # fmt: skip
        raw: RawCase = {
            "kind": "read-too-early", "overload": self.second["overload"], "error": "", "device": "",
            "operands": [operand], "site": self.second["site"], "in_backward": self.raw["in_backward"],
        }  # fmt: skip
        found = facts.build_case(raw)["operands"]
        for each in found:
            each.pop("edits", None)  # type: ignore[misc]  # they would move it to another device
            each.pop("candidates", None)
        return found

    # -- edits

    def missing(self) -> str:
        """The wait in words, where no edit can be written."""
        if self.kind == "never-waited":
            return "wait() on what the collective gave back"
        if self.kind == "freed":
            return f"record_stream() of {self.words(self.first)}, before the tensor is freed"
        if self.second["device"] < 0:
            return f"synchronize() of {self.words(self.first)}"
        return f"wait_stream() of {self.words(self.second)} for {self.words(self.first)}"

    def fix(self) -> tuple[Edit, Location] | None:
        """The edit, and the line that it is about."""
        if self.raw["in_backward"]:
            return self._fix_in_backward()
        if self.kind == "never-waited":
            return self._wait_for_work()
        if self.kind == "freed":
            recorded = self._record()
            if recorded is not None:
                return recorded
        place = Place.at(self.second_at)
        if place is None:
            return None
        stream = self.expression(self.first, place)
        synchronize = self.call("synchronize", self.first["device"], place, self.raw["current"])
        if self.second["device"] < 0:
            return place.insert(f"{stream}.synchronize()" if stream else synchronize)
        around = place.stream_block() if self.kind != "freed" and self.first["stream"] == 0 else None
        if around is not None and self._is_second(around[1]):
            block, waiting = around
            outside = _device_around(self._value(waiting))
            before = self.call("current_stream", self.first["device"], block, outside)
            return block.insert(f"{place.file.flat(waiting)}.wait_stream({before})")
        if self.second["collective"]:  # its stream waits for the current one
            waits = self.call("current_stream", self.second["device"], place, self.raw["current"])
        else:
            waits = self.expression(self.second, place)
        return place.insert(f"{waits}.wait_stream({stream})" if stream and waits not in ("", stream) else synchronize)

    def _fix_in_backward(self) -> tuple[Edit, Location] | None:
        """No line of the program's makes the second access. What was put on a stream in a block of its own is waited
        for behind the block; what is freed there is told to the allocator where forward has used it."""
        place = Place.at(self.first_at)
        if place is None or self.kind == "never-waited":
            return None
        if self.kind == "freed":
            shared = values.globals_of(self.first_at["file"], [])
            used = {place.file.flat(node): node for node in used_by(place.node)}
            freed = {name for name, node in used.items() if not values.is_tensor(shared.get(getattr(node, "id", "")))}
            lines = [f"{name}.record_stream({CURRENT})" for name in used if name in freed or not freed]
            return place.insert(*lines) if 0 < len(lines) <= _MOST_USED and place.stream_block() is not None else None
        around = place.stream_block()
        if around is None:
            return None
        block, stream = around
        return block.append(f"{CURRENT}.wait_stream({place.file.flat(stream)})", self.first_at)

    def _is_second(self, node: ast.expr) -> bool:
        """Whether an expression is the stream of the second access or, as far as is known, may be."""
        value = self._value(node)
        return self.second["collective"] or not isinstance(value, torch.Stream) or _is_stream(value, self.second)

    def _value(self, node: ast.expr) -> object:
        return values.evaluate(node, self.frame) if self.frame is not None else None

    def _record(self) -> tuple[Edit, Location] | None:
        """`x.record_stream(…)` before the line that uses `x` on the other stream."""
        place = Place.at(self.first_at)
        if place is None or place.node is None:
            return None
        operand: RawOperand = {
            "argument": "self", "position": self.first["argument"], "index": -1, "tensor": None, "odd": True,
            "rule": "same", "written": False,
        }  # fmt: skip
        node = expressions.by_place(place.node, operand, _op(self.first))
        if node is None and isinstance(place.node, ast.Call):
            given = [part for part in place.node.args if isinstance(part, (ast.Name, ast.Attribute))]
            node = given[0] if len(given) == 1 == len(place.node.args) else None
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        tensor = place.file.flat(node)
        here = place.stream_block() is not None or self.first["device"] == self.raw["current"]
        stream = CURRENT if here else f"torch.cuda.current_stream({tensor}.device)"
        return place.insert(f"{tensor}.record_stream({stream})")

    def _wait_for_work(self) -> tuple[Edit, Location] | None:
        started, place = Place.at(self.first_at), Place.at(self.second_at)
        if started is None:
            return None
        statement = started.statement
        same = place is not None and place.file is started.file
        if isinstance(statement, ast.Assign) and same and place is not None:
            target = statement.targets[0]
            if place.scope() is started.scope() and isinstance(target, (ast.Name, ast.Attribute)):
                text, made = place.file.flat(target), statement.value
                if isinstance(made, ast.Call) and started.node in (None, made):
                    return place.insert(f"{text}.wait()")
                if isinstance(made, ast.ListComp) and started.node is made.elt:
                    return _wait_for_all(place, text)
                return None
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            kept_in = _kept_in(statement.value, started.node)
            if kept_in is not None and same and place is not None and place.scope() is started.scope():
                return _wait_for_all(place, place.file.flat(kept_in))
            if started.node is not statement.value and (started.node is not None or _takes_calls(statement.value)):
                return None  # what is called with the handle has no wait() of its own
            edit = rewriting.append_call(started.file, statement.value, ".wait()")
            return (edit, self.first_at) if edit is not None else None
        return None


def _takes_calls(call: ast.Call) -> bool:
    return any(isinstance(part, ast.Call) for given in call.args for part in ast.walk(given))


def _kept_in(call: ast.Call, work: ast.AST | None) -> ast.expr | None:
    """The list that a call appends nothing but a handle to."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != "append" or len(call.args) != 1:
        return None
    is_work = isinstance(call.args[0], ast.Call) and work in (None, call.args[0])
    return function.value if is_work and isinstance(function.value, (ast.Name, ast.Attribute)) else None


def _wait_for_all(place: Place, works: str) -> tuple[Edit, Location] | None:
    """A loop over a list of handles, before the line that needs what they stand for."""
    free = (name for name in ("work", "handle") if not place.file.find(place.scope(), ("store", name)))
    work = next(free, "each")
    return place.insert(f"for {work} in {works}:", f"    {work}.wait()")


def _is_stream(value: object, side: RawSide) -> bool:
    return (
        isinstance(value, torch.Stream)
        and value.stream_id == side["stream"]
        and value.device_index == side["device"]
        and side["stream"] != 0
    )


def _device_around(stream: object) -> int:
    """The current device around the `with torch.cuda.stream(stream)` that runs: inside it is the stream's."""
    blocks = [each for each in gc.get_objects() if type(each) is torch.cuda.StreamContext]
    before = [each.src_prev_stream for each in blocks if each.stream is stream]
    found = {each.device_index for each in before if each is not None}
    return found.pop() if len(found) == 1 else _UNKNOWN


def _has_memory(value: object, address: int) -> bool:
    """Whether a tensor or an array of NumPy's is, or may be, in the memory at an address."""
    if values.is_tensor(value):
        storage = value.untyped_storage()
        return value.device.type == "cpu" and 0 <= address - storage.data_ptr() < storage.nbytes()
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        return False
    return bool(0 <= address - value.__array_interface__["data"][0] < value.nbytes)
