"""Makes the case of one broken rule from what the bridge saw: names, owners, histories, expressions and edits.

Called once for each distinct mistake, while the frames are live. Decides nothing and words nothing; runs no operator,
keeps no tensor, and never raises: where something is not known, the case says less.
"""

from __future__ import annotations

import ast
import os
import types
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

import torch

from locus import faults
from locus.blame import causes, givers, left_layers, left_modules, movers, operands, owners, prefetchers
from locus.blame.candidates import Candidates, Cause
from locus.fixing import caches, edits, rewriting
from locus.program import expressions, histories, names, places, source, trails, values
from locus.vocabulary import Fact

if TYPE_CHECKING:
    from locus.program.links import Link
    from locus.program.raw_shapes import RawCase, RawOperand
    from locus.program.shapes import Case, Operand


Result = TypeVar("Result")

_FOLLOWED = (
    "temporary", "variable", "closure", "global", "batch", "plain-attribute", "object-attribute", "cached",
    "function-context",
)  # fmt: skip
"""Kinds of operands whose way through the program's text is followed."""
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
        self.case["home"] = self.attempt("home", left_modules.home, self.users, self.frames) or ""
        if self.frames and (not self.users or self.frames[0] is not self.users[0]):
            self.case["library"] = places.frame_location(self.frames[0])

    def fill_forward(self) -> None:
        self.case["forward"] = histories.site_location(int(self.raw.get("forward_site", 0) or 0))

    def fill_operands(self) -> None:
        use = self.attempt("use", self.make_use)
        if use is not None:
            self.attempt("generator", self.find_generators, use)
        tensors = [operand.get("tensor") for operand in self.operands]
        nodes: list[ast.AST | None] = [None] * len(tensors)
        if use is not None:
            nodes = self.attempt("expressions", expressions.operand_nodes, use, self.operands, self.case["op"]) or nodes
            nodes = [operand.get("node") if node is None else node for node, operand in zip(nodes, self.operands)]
            for number, facts in enumerate(self.case["operands"]):
                nameless = nodes[number] is None and values.is_tensor(tensors[number])
                if nameless and (facts["odd"] or not isinstance(tensors[number], torch.nn.Parameter)):
                    nodes[number], tensors[number] = self.trace(use, tensors[number], facts["device"])
                    if nodes[number] is not None and tensors[number] is not self.operands[number]["tensor"]:
                        facts.update(operands.read(tensors[number]))
                    self.operands[number]["tensor"] = tensors[number]
            self.attempt("parts", self.split, use, nodes, tensors)
        facts_of = self.case["operands"]
        rare = [n for n, facts in enumerate(facts_of) if nodes[n] is None and (facts["odd"] or facts["is_leaf"])]
        # What `self.queue.clone()` is called is of no use: the tensor to know about is `self.queue`.
        named = list(tensors)
        ways: list[trails.Trail | None] = [None] * len(tensors)
        for number, facts in enumerate(facts_of):
            is_known = values.is_tensor(tensors[number]) or isinstance(tensors[number], torch.Generator)
            if nodes[number] is not None and is_known:
                lines = self.attempt("history", histories.lines, tensors[number]) or ()
                ways[number] = self.attempt("trail", self.follow, nodes[number], use.frame, facts["device"], lines)
                stem = self.attempt("stem", self.stem, number, nodes[number], use.frame, ways[number])
                named[number] = tensors[number] if stem is None else stem
        found = self.attempt("names", names.find, named, self.frames, rare) or names.Names()
        histories_of: list[list[histories.Step]] = [[] for _ in tensors]
        matched: list[names.Match | None] = [None] * len(tensors)
        for number, (facts, node) in enumerate(zip(self.case["operands"], nodes)):
            if node is not None:
                facts["expression"] = use.file.flat(node)
            steps = self.attempt("history", histories.history, tensors[number]) or []
            facts["history"] = [step.facts for step in steps]
            match = found.best(number, facts["expression"])
            known = self.attempt("history", histories.history, named[number]) or steps
            way = ways[number] if named[number] is not tensors[number] else None
            if way is not None and way.decided_by(named[number]):
                facts["history"] = [step.facts for step in known]  # where it is was decided by that one
            self.attempt("name", self.name, facts, tensors[number], match, known)
            if match is not None and match.way.holder is not None:
                facts["owner"] = self.attempt("owner", owners.facts_of, match, tensors[number])
            self.attempt("edits", self.edit, number, use, nodes, found, match, known)
            histories_of[number] = known
            matched[number] = match
            if use is not None and facts["kind"] in ("temporary", "variable", "batch") and facts["device"] == "cpu":
                self.attempt("layers", self.find_layers, number, use, nodes, ways[number])
            if ways[number] is not None and not any(step["action"] != "computed" for step in facts["history"]):
                self.attempt("made", self.add_made, facts, ways[number])
        for number in range(len(tensors)):
            self.attempt("cause", self.gather, number, use, nodes[number], ways[number], matched, histories_of)
        if self.given is not None:
            self.attempt("given", self.add_given, self.given, matched, histories_of)
        del tensors, named, ways

    def split(self, use: expressions.Use, nodes: list[ast.AST | None], tensors: list[torch.Tensor | None]) -> None:
        """`a * b` of two tensors that are both elsewhere: each is an operand of its own, and the product is none."""
        for number in range(len(tensors)):
            facts, operand = self.case["operands"][number], self.operands[number]
            others = {other["device"] for other in self.case["operands"]} - {"cpu", ""}
            if self.case["kind"] != "operator" or facts["device"] != "cpu" or not others or facts["written"]:
                continue
            for node, tensor in expressions.leaves(nodes[number], use.frame, facts["device"]):
                part = {**operand, "tensor": tensor, "odd": True}
                self.operands.append(part)
                self.case["operands"].append(operands.plain(part))
                nodes.append(node)
                tensors.append(tensor)
                facts["rule"] = "free"

    def find_layers(
        self, number: int, use: expressions.Use, nodes: list[ast.AST | None], way: trails.Trail | None
    ) -> None:
        """A result of layers that their model's move did not reach: they are what is to be fixed."""
        facts, tensor = self.case["operands"][number], self.operands[number].get("tensor")
        others = [n for n, other in enumerate(self.case["operands"]) if other["device"] != facts["device"]]
        steps = histories.history(tensor)
        by_module = bool(steps) and steps[0].call is not None and histories.called_name(steps[0].call)[:1].isupper()
        if not others or not by_module or any(step.facts["action"] in ("moved", "received") for step in steps):
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
        tensor = values.evaluate(link.node, link.context.frame)
        operand = {"tensor": tensor, "argument": "input", "odd": True}
        facts, number = operands.plain(operand), len(self.operands)
        self.operands.append(operand)
        self.case["operands"].append(facts)
        use = expressions.Use(link.context.frame, None)
        text = use.file.flat(link.node)
        facts["expression"] = f"{text} (line {link.node.lineno})"  # not to be taken for one of the call's own
        known = histories.history(tensor)
        facts["history"] = [step.facts for step in known]
        found = names.find([tensor], self.frames, [])
        match = found.best(0, text)
        self.name(facts, tensor, match, known)
        matched.append(match)
        steps.append(known)
        self.edit(number, use, [*[None] * number, link.node], found, match, known)
        way = self.follow(link.node, link.context.frame, facts["device"])
        self.gather(number, use, link.node, way, matched, steps)

    def add_made(self, facts: Operand, way: trails.Trail) -> None:
        """Memory that PyTorch did not allocate has no history; the text says which call brought it in."""
        made = next((link for link in way.links if link.how == "made"), None)
        if made is None or facts["kind"] in ("parameter", "buffer", "generator") or "device" in ast.dump(made.node):
            return
        at = causes.location_of(made.context.file, made.node)
        op = histories.called_name(made.node)
        step = {"action": "created", "op": op, "device": facts["device"], "explicit": False, "at": at}
        facts["history"] = [step, *facts["history"]]

    def follow(
        self, node: ast.AST, frame: types.FrameType, device: str, lines: Collection[tuple[str, int]] = ()
    ) -> trails.Trail:
        way = trails.Trail(self.users, device, lines)
        way.follow(node, frame)
        return way

    def stem(self, number: int, node: ast.AST, frame: types.FrameType, way: trails.Trail | None) -> object:
        """The tensor that decided where an operand is, where that is another one: it is the one to be blamed."""
        facts = self.case["operands"][number]
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            return None  # a gradient is a tensor of its own, not its parameter
        if way is not None and way.leaders:
            return way.leaders[0][0]
        steps = histories.history(self.operands[number].get("tensor"))
        received = any(step.facts["action"] == "received" for step in steps)  # what it was computed with is no matter
        if way is not None and way.held and facts["odd"] and not received:
            # The deepest: a cache is where the table is that it was computed from. Not where the text says that the
            # value itself should have been moved on its way here.
            held, _, number = way.held[-1]
            return None if causes.is_lost_before(way, number) else held
        return expressions.stem(node, frame, facts["device"]) if facts["odd"] else None

    def gather(
        self, number: int, use: expressions.Use | None, node: ast.AST | None, way: trails.Trail | None,
        matched: list[names.Match | None], steps: list[list[histories.Step]],
    ) -> None:  # fmt: skip
        """Every line that could be edited for an operand, with what speaks for it."""
        facts, match = self.case["operands"][number], matched[number]
        others = [n for n, other in enumerate(self.case["operands"]) if other["device"] != facts["device"]]
        device = self.other_device(number, others)
        found = Candidates()
        self.attempt("candidates", self.gather_at_case, found, facts, number, use, node, way, device, steps)
        if self.case["kind"] in ("operator", "index") and not self.case["collating"] and device.startswith("cuda"):
            self.attempt("candidates", self.gather_by_kind, found, facts, match, way, device, steps[number])
            if facts["kind"] in _FOLLOWED and not self.case["in_backward"]:
                self.attempt("candidates", self.gather_on_the_way, found, number, use, node, way, match, device, steps)
        for kind, edit in facts.pop("edits").items():
            # What waits goes before the line that reads; that line is what is wrong.
            at = self.case["use"] if kind == "synchronize" else places.edit_location(edit)
            found.add(kind, Cause(at, edit))
        facts["candidates"] = found.as_list()

    def gather_at_case(
        self, found: Candidates, facts: Operand, number: int, use: expressions.Use | None, node: ast.AST | None,
        way: trails.Trail | None, device: str, steps: list[list[histories.Step]],
    ) -> None:  # fmt: skip
        """What follows from the kind of case: a generator, a table that is indexed, samples, a comparison."""
        made = next((step for step in steps[number] if step.facts["action"] == "created"), None)
        factory = facts["edits"].get("factory_device")
        if facts["kind"] == "generator" and way is not None:
            generator = givers.of_generator(way, device, self.users)
            if generator is not None:
                found.add("generator_device", generator)
        elif self.case["kind"] == "index" and facts["position"] == 0 and facts["device"] == "cpu" and use is not None:
            if made is not None and factory is not None and expressions.meets(use, device):
                found.add("factory_device", Cause(places.edit_location(factory), factory), ["table_serves_device"])
        elif self.case["collating"]:
            sample = givers.of_sample(self.operands[number].get("tensor"), steps[number], self.frames)
            if sample is not None:
                found.add("move_sample", sample, ["given_by_dataset"])
        elif self.case["op"] == "equal" and not device.startswith("cuda") and way is not None and way.links:
            link = way.links[0]
            if isinstance(node, ast.Name) and isinstance(link.statement, ast.Assign):
                edit = rewriting.append_call(link.context.file, link.node, ".cpu()")
                found.add("move_on_the_way", Cause(causes.place_of(link), edit), ["compared_on_host"])

    def gather_by_kind(
        self, found: Candidates, facts: Operand, match: names.Match | None, way: trails.Trail | None,
        device: str, steps: list[histories.Step],
    ) -> None:  # fmt: skip
        """What follows from what the operand is: an optimizer's state, a module's parameter, a saved tensor."""
        made = next((step for step in steps if step.facts["action"] == "created"), None)
        factory = facts["edits"].get("factory_device")
        if facts["kind"] == "optimizer-state":
            state = givers.of_state(facts["name"], self.users)
            if state is not None:
                found.add("assign_to" if state.edit is not None else "move_on_the_way", state, ["state_not_kept"])
            elif made is not None and givers.is_made_anew(made) and factory is not None:
                found.add("factory_device", Cause(places.edit_location(factory), factory), ["made_anew"])
        elif facts["kind"] in ("parameter", "buffer", "loss-weight") and facts["device"] == "cpu" and match is not None:
            left_modules.gather(found, match, facts, device, self.users)
        elif facts["kind"] in ("parameter", "buffer") and facts["device"].startswith("cuda"):
            placed = left_modules.of_wrong_card(steps, device, self.users)
            if placed is not None:
                found.add("put_on_card", placed, ["put_on_wrong_card"])
        elif self.case["in_backward"]:
            hook = givers.of_unpacked(facts["history"], device, self.users)
            if hook is not None:
                found.add("move_unpacked", hook, ["unpack_hook"])

    def gather_on_the_way(
        self, found: Candidates, number: int, use: expressions.Use | None, node: ast.AST | None,
        way: trails.Trail | None, match: names.Match | None, device: str, steps: list[list[histories.Step]],
    ) -> None:  # fmt: skip
        """What follows from the way that the value took through the program."""
        facts = self.case["operands"][number]
        on_host = facts["device"] == "cpu"
        if way is None and match is not None and match.frame < len(self.frames) and match.way.holder is None:
            way = self.follow(ast.parse(match.name, mode="eval").body, self.frames[match.frame], facts["device"])
        if way is not None and way.leaders:
            _, node, context = way.leaders[0]
            way = trails.Trail(self.users, facts["device"])
            way.follow_in(node, context)
        dropped = (givers.of_dropped(way) or movers.of_dropped(way)) if way is not None and on_host else None
        if dropped is not None:
            found.add("assign_to", Cause(places.edit_location(dropped[1]), dropped[1], dropped[0]))
        batch = givers.of_batch(steps[number], device, self.users)
        if batch is not None:
            found.add("move_on_the_way", batch, ["made_with_rest"])
        received = prefetchers.of_received(facts["name"], steps[number], self.users)
        if received is not None:
            found.add("move_on_the_way", received, ["left_by_prefetcher"])
        if way is not None and way.owners and on_host:
            forgotten = movers.of_forgotten(*way.owners[0], device)
            if forgotten is not None:
                found.add("move_forgotten", forgotten, ["owner_moves_others"])
        if use is not None and node is not None:
            at_use = causes.at_use(use, node, way, device, self.users)
            if at_use is not None:
                found.add("move_at_use", *at_use)
        if way is None:
            return
        others = [steps[n] for n, other in enumerate(self.case["operands"]) if other["device"] != facts["device"]]
        always: list[Fact] = ["host_on_purpose"] if operands.is_handed_over(facts, node) else []
        if histories.is_loaded_to_host(steps[number]):
            always.append("host_asked")
        links = causes.on_the_way(steps[number], way, others, device, self.users, facts["kind"] == "batch", not on_host)
        for cause, said, distance in links:
            found.add("move_on_the_way", cause, [*said, *always] if said else [], distance)

    def trace(self, use: expressions.Use, tensor: object, device: str) -> tuple[ast.AST | None, object]:
        """The tensor that the program knows, for a result in the middle of a library function that nobody knows."""
        known = histories.history(tensor)
        if use.inner is None:
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
        nodes: list[ast.AST | None],
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
        )  # fmt: skip
        facts["edits"] = edits.operand_edits(request)
        made = facts["edits"].get("generator_device")
        if made is not None and not facts["history"]:
            # No operator makes a generator, so that the bridge knows nothing of it; the line that does is in the edit.
            at = places.location(made["file"], made["line"], made["line"], -1, -1, "", made["old"].partition("\n")[0])
            explicit = "Generator()" not in made["old"]
            step = {"action": "created", "op": "Generator", "device": facts["device"], "explicit": explicit, "at": at}
            facts["history"] = [step]

    def other_device(self, number: int, others: list[int]) -> str:
        """Where this operand would have to be for the call to be right."""
        if self.case["operands"][number]["rule"] == "cpu":
            return "cpu"
        if self.operands[number].get("odd"):
            return self.case["device"]
        devices = [self.case["operands"][n]["device"] for n in others if self.case["operands"][n]["rule"] == "same"]
        devices = devices or [self.case["operands"][n]["device"] for n in others]
        return devices[0] if devices else self.case["device"]
