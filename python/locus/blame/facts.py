"""Makes the case of one broken rule from what the bridge saw: names, owners, histories, expressions and edits.

Called once for each distinct mistake, while the frames are live. Decides nothing and words nothing; runs no operator,
keeps no tensor, and never raises: where something is not known, the case says less.
"""

from __future__ import annotations

import ast
import os
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch

from locus import faults
from locus.blame import (
    causes,
    gathering,
    homes,
    host_keepers,
    left_layers,
    left_modules,
    operands,
    owners,
    unsaid,
)  # fmt: skip
from locus.fixing import caches, edits
from locus.program import expressions, histories, names, places, source, trails, values

if TYPE_CHECKING:
    from locus.program.links import Link
    from locus.program.raw_shapes import OnDevice, RawCase, RawOperand
    from locus.program.shapes import Case, Operand


Result = TypeVar("Result")

_COLLATE = os.path.join("data", "_utils", "collate.py")


def build_case(raw: RawCase, frames: list[types.FrameType] | None = None) -> Case:
    """The CASE of what the bridge saw. `frames`: those that led to it, else the live ones. Never raises."""
    case = _empty_case(raw)
    try:
        frames = places.frames_here() if frames is None else frames
        _Case(raw, case, frames).fill()
    except BaseException as error:
        faults.note("build_case", error)
    finally:
        try:
            places.release_locals(frames or [])
        except BaseException as error:
            faults.note("release_locals", error)
        del frames
    return case


def _empty_case(raw: RawCase) -> Case:
    overload = str(raw.get("overload", ""))
    return {
        "kind": raw.get("kind", "operator"),
        "op": overload.partition("::")[2].partition(".")[0] or overload,
        "overload": overload,
        "error": str(raw.get("error", "")).partition("\n")[0],
        "use": places.unknown_location(),
        "library": None,
        "stack": [],
        "in_backward": bool(raw.get("in_backward", False)),
        "forward": None,
        "step": int(raw.get("step", 0) or 0),
        "caught_by": raw.get("caught_by"),
        "device": str(raw.get("device", "")),
        "collating": False,
        "operands": [],
    }


class _Case:
    def __init__(self, raw: RawCase, case: Case, frames: list[types.FrameType]):
        self.raw, self.case, self.frames = raw, case, frames
        self.operands: list[RawOperand] = [operand.copy() for operand in raw.get("operands") or []]  # ours to change
        for operand in self.operands:
            if "tensor" in operand:
                operand["tensor"] = self.attempt("unwrap", values.unwrapped, operand["tensor"])
        self.users = places.user_frames(frames)
        self.given: Link | None = None

    def fill(self) -> None:
        self.attempt("place", self.fill_place)
        self.attempt("forward", self.fill_forward)
        for operand in self.operands:
            self.case["operands"].append(operands.plain(operand))
        self.attempt("operands", self.fill_operands)

    def attempt(self, what: str, step: Callable[..., Result], *arguments: object) -> Result | None:
        """A fault in one part must not cost the others."""
        try:
            return step(*arguments)
        except BaseException as error:  # what an object of the program raises when it is looked at
            faults.note(what, error)
            return None

    def fill_place(self) -> None:
        for frame in self.frames:
            source.vouch(frame.f_code, frame.f_globals)
        self.case["stack"] = [places.frame_location(frame) for frame in self.users[: places.MAX_STACK]]
        if self.case["stack"]:
            self.case["use"] = self.case["stack"][0]
        else:
            known = histories.site_location(int(self.raw.get("site", 0) or 0))
            if known is not None:
                self.case["use"] = known
                self.case["stack"] = [known]
        self.case["collating"] = any(f.f_code.co_filename.endswith(_COLLATE) for f in self.frames)
        self.case["home"] = self.attempt("home", homes.of_function, self.users, self.frames) or ""
        if self.frames and (not self.users or self.frames[0] is not self.users[0]):
            self.case["library"] = places.frame_location(self.frames[0])

    def fill_forward(self) -> None:
        self.case["forward"] = histories.site_location(int(self.raw.get("forward_site", 0) or 0))

    def fill_operands(self) -> None:
        use = self.attempt("use", self.make_use)
        if use is not None:
            self.attempt("generator", self.find_generators, use)
        tensors = [operand.get("tensor") for operand in self.operands]
        nodes: list[ast.expr | None] = [None] * len(tensors)
        if use is not None:
            nodes = self.attempt("expressions", expressions.operand_nodes, use, self.operands, self.case["op"]) or nodes
            nodes = [operand.get("node") if node is None else node for node, operand in zip(nodes, self.operands)]
            for number, facts in enumerate(self.case["operands"]):
                nameless = nodes[number] is None and values.is_tensor(tensors[number])
                if nameless and (facts["odd"] or not isinstance(tensors[number], torch.nn.Parameter)):
                    nodes[number], tensors[number] = self.trace(use, tensors[number], facts["device"])
                    if nodes[number] is not None and tensors[number] is not self.operands[number]["tensor"]:
                        operands.read(facts, tensors[number])
                    self.operands[number]["tensor"] = tensors[number]
            self.attempt("parts", self.split, use, nodes, tensors)
            found_home = self.attempt("accumulator", homes.of_accumulator, use, nodes, tensors)
            self.case["home"] = found_home or self.case.get("home", "")
        facts_of = self.case["operands"]
        rare = [n for n, facts in enumerate(facts_of) if nodes[n] is None and (facts["odd"] or facts["is_leaf"])]
        # What `self.queue.clone()` is called is of no use: the tensor to know about is `self.queue`.
        named: list[object] = list(tensors)
        ways: list[trails.Trail | None] = [None] * len(tensors)
        for number, (facts, node) in enumerate(zip(facts_of, nodes)):
            is_known = values.is_tensor(tensors[number]) or isinstance(tensors[number], torch.Generator)
            if use is not None and node is not None and is_known:
                lines = self.attempt("history", histories.lines, tensors[number]) or ()
                ways[number] = self.attempt("trail", trails.follow, self.users, facts["device"], node, use.frame, lines)
                stem = self.attempt("stem", self.stem, number, node, use.frame, ways[number])
                named[number] = tensors[number] if stem is None else stem
                on_host = stem is not None and facts["device"] == "cpu"
                if on_host and left_layers.is_held_in_arithmetic(ways[number], stem):
                    self.given = left_layers.given(ways[number]) or self.given
        found = self.attempt("names", names.find, named, self.frames, rare) or names.Names()
        histories_of: list[list[histories.Step]] = [[] for _ in tensors]
        matched: list[names.Match | None] = [None] * len(tensors)
        for number, (facts, node) in enumerate(zip(self.case["operands"], nodes)):
            if use is not None and use.file is not None and node is not None:
                facts["expression"] = use.file.flat(node)
            steps = self.attempt("history", self.history, tensors[number]) or []
            facts["history"] = [step.facts for step in steps]
            if nodes[number] is None and use is not None and operands.is_made_by_the_call(steps, use):
                beside = [each["device"] for each, other in zip(facts_of, nodes) if other is not None]
                facts["rule"] = "free" if facts["device"] in beside else facts["rule"]  # it follows what is given
            match = found.best(number, facts["expression"])
            known = self.attempt("history", self.history, named[number]) or steps
            way = ways[number] if named[number] is not tensors[number] else None
            if way is not None and way.decided_by(named[number]):
                facts["history"] = [step.facts for step in known]  # where it is was decided by that one
            self.attempt("name", self.name, facts, tensors[number], match, known)
            if match is not None:
                facts["owner"] = self.attempt("owner", owners.facts_of, match, tensors[number])
            if self.attempt("keeper", host_keepers.gathers, facts, tensors[number], ways[number], use):
                self.case["home"] = "host"
            self.attempt("edits", self.edit, number, use, nodes, found, match, known)
            histories_of[number] = known
            matched[number] = match
            if use is not None and facts["kind"] in ("temporary", "variable", "batch") and facts["device"] == "cpu":
                self.attempt("layers", self.find_layers, number, use, nodes, ways[number])
            if not any(step["action"] != "computed" for step in facts["history"]):
                self.attempt("made", operands.add_made, facts, ways[number])
        own = [steps if named[n] is tensors[n] else [] for n, steps in enumerate(histories_of)]
        alone = self.attempt("alone", homes.of_others, facts_of, own, self.users)
        self.case["home"] = alone or self.case.get("home", "")
        for number in range(len(tensors)):
            self.attempt("cause", self.gather, number, use, nodes, ways[number], matched, histories_of)
        if self.given is not None:
            self.attempt("given", self.add_given, self.given, matched, histories_of)
        del tensors, named, ways

    def split(self, use: expressions.Use, nodes: list[ast.expr | None], tensors: list[OnDevice | None]) -> None:
        """`a * b` of two tensors that are both elsewhere: each is an operand of its own, and the product is none."""
        for number in range(len(tensors)):
            facts, operand = self.case["operands"][number], self.operands[number]
            others = {other["device"] for other in self.case["operands"]} - {"cpu", "", facts["device"]}
            home = self.case.get("home") or self.case["device"]
            is_right = facts["device"] == home and facts["device"] != "cpu"
            if self.case["kind"] != "operator" or is_right or not others or facts["written"]:
                continue
            for node, tensor in expressions.leaves(nodes[number], use.frame, facts["device"]):
                part: RawOperand = {**operand, "tensor": tensor, "odd": True}
                self.operands.append(part)
                self.case["operands"].append(operands.plain(part))
                nodes.append(node)
                tensors.append(tensor)
                facts["rule"] = "free"

    def find_layers(
        self, number: int, use: expressions.Use, nodes: list[ast.expr | None], way: trails.Trail | None
    ) -> None:
        """A result of layers that their model's move did not reach: they are what is to be fixed."""
        facts, tensor = self.case["operands"][number], self.operands[number].get("tensor")
        others = [n for n, other in enumerate(self.case["operands"]) if other["device"] != facts["device"]]
        steps = histories.history(tensor)
        by_module = bool(steps) and steps[0].call is not None and histories.called_name(steps[0].call)[:1].isupper()
        if not others or not by_module or not values.is_tensor(tensor):
            return
        if any(step.facts["action"] in ("moved", "received") for step in steps):
            return
        found = left_layers.behind(tensor, self.frames, self.other_device(number, others))
        if found is None:
            return
        parameter, match, known = found
        facts["name"], facts["kind"] = match.name, match.kind
        facts["owner"] = self.attempt("owner", owners.facts_of, match, parameter)
        self.attempt("edits", self.edit, number, use, nodes, known, match, histories.history(parameter))
        self.given = left_layers.given(way) or self.given

    def add_given(self, link: Link, matched: list[names.Match | None], steps: list[list[histories.Step]]) -> None:
        """What was given to layers that were left behind is on the CPU as well: it will not do when they are moved."""
        frame = link.context.frame
        if frame is None:
            return
        tensor = values.evaluate(link.node, frame)
        operand = operands.raw("input", -1, tensor)
        operand["odd"] = True
        facts, number = operands.plain(operand), len(self.operands)
        self.operands.append(operand)
        self.case["operands"].append(facts)
        use, text = expressions.Use(frame, None), link.context.file.flat(link.node)
        facts["expression"] = f"{text} (line {link.node.lineno})"  # not to be taken for one of the call's own
        known = self.history(tensor)
        facts["history"] = [step.facts for step in known]
        found = names.find([tensor], self.frames, [])
        match = found.best(0, text)
        self.name(facts, tensor, match, known)
        matched.append(match)
        steps.append(known)
        self.edit(number, use, [*[None] * number, link.node], found, match, known)
        way = trails.follow(self.users, facts["device"], link.node, frame)
        self.gather(number, use, [*[None] * number, link.node], way, matched, steps)

    def stem(
        self, number: int, node: ast.expr, frame: types.FrameType, way: trails.Trail | None
    ) -> torch.Tensor | None:
        """The tensor that decided where an operand is, where that is another one: it is the one to be blamed."""
        facts = self.case["operands"][number]
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            return None  # a gradient is a tensor of its own, not its parameter
        if facts["rule"] in ("index", "cpu") and self.case["device"] == "cpu":
            return None  # it is rightly where it is, and wanted on the host
        if way is not None and way.leaders:
            return way.leaders[0][0]
        steps = histories.history(self.operands[number].get("tensor"))
        received = any(step.facts["action"] == "received" for step in steps)  # what it was computed with is no matter
        if way is not None and way.held and facts["odd"] and not received:
            # The deepest: a cache is where the table is that it was computed from. Not where the text says that the
            # value itself should have been moved on its way here.
            held, _, before = way.held[-1]
            if before <= len(way.until_moved()):
                return None if causes.is_lost_before(way, before) else held
        return expressions.stem(node, frame, facts["device"]) if facts["odd"] else None

    def gather(
        self, number: int, use: expressions.Use | None, nodes: list[ast.expr | None], way: trails.Trail | None,
        matched: list[names.Match | None], steps: list[list[histories.Step]],
    ) -> None:  # fmt: skip
        """Every line that could be edited for an operand."""
        facts = self.case["operands"][number]
        others = [n for n, other in enumerate(self.case["operands"]) if other["device"] != facts["device"]]
        device = self.other_device(number, others)
        right = [nodes[n] for n in others if n < len(nodes) and self.case["operands"][n]["device"] == device]
        known = gathering.Known(
            case=self.case, facts=facts, tensor=self.operands[number].get("tensor"), device=device, use=use,
            node=nodes[number], way=way, match=matched[number], steps=steps[number],
            others=[(n, use.file) for n in right if n is not None and use is not None and use.file is not None],
            steps_of_others=[steps[n] for n in others if n < len(steps)], frames=self.frames, users=self.users,
        )  # fmt: skip
        facts["candidates"] = gathering.gather(known)
        facts.pop("edits")  # type: ignore[misc]  # the case has no more use for them

    def history(self, tensor: object) -> list[histories.Step]:
        steps = unsaid.correct(histories.history(tensor), self.users)
        if left_modules.is_data_put(steps):  # whoever asked for its device asked for that of another tensor
            for step in steps:
                step.facts["explicit"] = False
        return steps

    def trace(
        self, use: expressions.Use, tensor: OnDevice | None, device: str
    ) -> tuple[ast.expr | None, OnDevice | None]:
        """The tensor that the program knows, for a result in the middle of a library function that nobody knows."""
        known = histories.history(tensor)
        # A gradient that races is no result of what backward() was called on.
        if use.inner is None or (self.case["kind"] == "read-too-early" and self.case["in_backward"]):
            return None, tensor
        if known and device == "cpu":
            in_there = (
                known[-1].facts["action"] == "computed" and known[-1].facts["at"]["line"] == self.case["use"]["line"]
            )
            return (self.attempt("trace", expressions.root_of, use, known) if in_there else None) or (None, tensor)
        node, source_tensor = self.attempt("trace", expressions.source_of, use, self.frames, device) or (None, None)
        return (node, source_tensor) if source_tensor is not None else (None, tensor)

    def find_generators(self, use: expressions.Use) -> None:
        """The bridge can't hand a generator over: it is the call's own argument, or that of a library around it."""
        for operand, facts in zip(self.operands, self.case["operands"]):
            if operand.get("tensor") is not None or "generator_device" not in operand:
                continue
            facts["device"], facts["kind"] = str(operand["generator_device"]), "generator"
            given = use.node.keywords if isinstance(use.node, ast.Call) else []
            found = [values.evaluate(k.value, use.frame) for k in given if k.arg == "generator"]
            found += [frame.f_locals.get("generator") for frame in self.frames]
            operand["tensor"] = next((value for value in found if isinstance(value, torch.Generator)), None)

    def make_use(self) -> expressions.Use | None:
        if not self.users:
            return None
        frame = self.users[0]
        place = next(number for number, candidate in enumerate(self.frames) if candidate is frame)
        inner = self.frames[place - 1] if place > 0 else None
        if inner is not None and inner.f_back is not frame:
            inner = None  # the frames of another thread lie between
        return expressions.Use(frame, inner)

    def name(self, facts: Operand, tensor: object, match: names.Match | None, steps: list[histories.Step]) -> None:
        if match is not None and (match.frame < 90 or match.way.holder is not None):
            received = bool(steps) and steps[-1].facts["action"] == "received"
            loose = match.kind in ("variable", "closure", "global", "object-attribute")
            facts["name"], facts["kind"] = match.name, "batch" if received and loose else match.kind
            if isinstance(tensor, torch.Generator):
                facts["kind"] = "generator"
            if match.kind == "variable" and operands.is_saved(match.name, self.frames[match.frame]):
                facts["kind"] = "function-context"
            elif loose and facts["kind"] != "batch" and caches.is_cached(steps, match.name):
                facts["kind"] = "cached"
            return
        facts["kind"] = (
            "generator" if facts["kind"] == "generator" or isinstance(tensor, torch.Generator) else "temporary"
        )
        if steps and steps[-1].facts["action"] == "received":
            facts["kind"] = "batch"
        elif caches.is_cached(steps, ""):
            facts["kind"] = "cached"
        facts["name"] = facts["expression"] or (steps[-1].text if steps else "")

    def edit(
        self,
        number: int,
        use: expressions.Use | None,
        nodes: list[ast.expr | None],
        found: names.Names,
        match: names.Match | None,
        steps: list[histories.Step],
    ) -> None:
        facts = self.case["operands"][number]
        others = [n for n, other in enumerate(self.case["operands"]) if other["odd"] != facts["odd"]]
        request = edits.Request(
            case=self.case, facts=facts, tensor=self.operands[number].get("tensor"), rule=facts["rule"],
            device=self.other_device(number, others), use=use, node=nodes[number], nodes=nodes, others=others,
            frames=self.frames, users=self.users, match=match, names=found, steps=steps,
            current=self.raw.get("current", -1),
        )  # fmt: skip
        facts["edits"] = edits.operand_edits(request)
        made = facts["edits"].get("generator_device")
        if made is not None and not facts["history"]:
            # No operator makes a generator, so that the bridge knows nothing of it; the line that does is in the edit.
            at = places.location(made["file"], made["line"], made["line"], -1, -1, "", made["old"].partition("\n")[0])
            facts["history"] = [operands.created("Generator", facts["device"], "Generator()" not in made["old"], at)]

    def other_device(self, number: int, others: list[int]) -> str:
        """Where this operand would have to be for the call to be right."""
        if self.case["operands"][number]["rule"] == "cpu":
            return "cpu"
        if self.case.get("home") == "host" and self.case["operands"][number]["device"] != "cpu":
            return "cpu"
        if self.operands[number].get("odd"):
            return self.case["device"]
        devices = [self.case["operands"][n]["device"] for n in others if self.case["operands"][n]["rule"] == "same"]
        devices = devices or [self.case["operands"][n]["device"] for n in others]
        return devices[0] if devices else self.case["device"]
