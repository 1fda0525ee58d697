"""Every line that could be edited for one operand, with what speaks for each: asks the modules of this package in turn.

Gathers and chooses nothing. A fault in one part must not cost the others.
"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass

from locus import faults
from locus.blame import causes, givers, left_modules, movers, operands, placings, prefetchers, unsaid, uses
from locus.blame.candidates import Candidates, Cause
from locus.fixing import rewriting
from locus.program import expressions, histories, names, places, source, trails
from locus.program.shapes import Candidate, Case, Operand
from locus.vocabulary import Fact

_FOLLOWED = (
    "temporary", "variable", "closure", "global", "batch", "plain-attribute", "object-attribute", "cached",
    "function-context",
)  # fmt: skip
"""Kinds of operands whose way through the program's text is followed."""


@dataclass
class Known:
    """An operand of a case, and what is known of it."""

    case: Case
    facts: Operand
    tensor: object
    device: str
    """Where it should be."""
    use: expressions.Use | None
    node: ast.expr | None
    way: trails.Trail | None
    match: names.Match | None
    steps: list[histories.Step]
    others: list[tuple[ast.AST, source.Source]]
    """The expressions of operands that are where it should be."""
    steps_of_others: list[list[histories.Step]]
    frames: list[types.FrameType]
    users: list[types.FrameType]

    @property
    def made(self) -> histories.Step | None:
        return next((step for step in self.steps if step.facts["action"] == "created"), None)

    @property
    def factory(self) -> Cause | None:
        """The edit of the call that made it."""
        edit = self.facts["edits"].get("factory_device")
        return Cause(places.edit_location(edit), edit) if edit is not None else None


def gather(known: Known) -> list[Candidate]:
    """The candidates of an operand."""
    found, case = Candidates(), known.case
    about_devices = case["kind"] in ("operator", "index") and not case["collating"] and known.device.startswith("cuda")
    parts = [_at_case]
    if about_devices:
        parts.append(_by_kind)
        is_here = known.match is not None and known.match.frame < len(known.frames)
        if known.facts["kind"] in _FOLLOWED and (not case["in_backward"] or is_here):
            parts.append(_on_the_way)
        parts.append(_where_placed)
    for part in parts:
        try:
            part(found, known)
        except BaseException as error:  # what an object of the program raises when it is looked at
            faults.note("candidates", error)
    for kind, edit in known.facts["edits"].items():
        # What waits goes before the line that reads; that line is what is wrong.
        at = case["use"] if kind == "synchronize" else places.edit_location(edit)
        found.add(kind, Cause(at, edit))
    found.settle()
    return found.as_list()


def _at_case(found: Candidates, known: Known) -> None:
    """What follows from the kind of case: a generator, a table that is indexed, samples, a comparison."""
    case, facts, way, device = known.case, known.facts, known.way, known.device
    if facts["kind"] == "generator" and way is not None:
        generator = givers.of_generator(way, device, known.users)
        if generator is not None:
            found.add("generator_device", generator)
    elif case["kind"] == "index" and facts["position"] == 0 and facts["device"] == "cpu" and known.use is not None:
        if known.made is not None and known.factory is not None and expressions.meets(known.use, device):
            found.add("factory_device", known.factory, ["table_serves_device"])
    elif case["kind"] == "index" and facts["rule"] == "index" and not device.startswith("cuda"):
        index = placings.of_index(known.steps)
        if index is not None:
            found.add("drop_move", index, ["indexes_host"])
    elif case["collating"]:
        sample = givers.of_sample(known.tensor, known.steps, known.frames)
        if sample is not None:
            found.add("move_sample", sample, ["given_by_dataset"])
    elif case["kind"] == "gradient" and facts["device"] == "cpu":
        copy = placings.of_host_copy(known.steps)
        if copy is not None:
            found.add("drop_move", copy, ["brought_to_host"])
    elif case["op"] == "equal" and not device.startswith("cuda") and way is not None and way.links:
        link = way.links[0]
        if isinstance(known.node, ast.Name) and isinstance(link.statement, ast.Assign):
            edit = rewriting.append_call(link.context.file, link.node, ".cpu()")
            found.add("move_on_the_way", Cause(causes.place_of(link), edit), ["compared_on_host"])


def _by_kind(found: Candidates, known: Known) -> None:
    """What follows from what the operand is: an optimizer's state, a module's parameter, a saved tensor."""
    facts, device = known.facts, known.device
    if facts["kind"] == "optimizer-state":
        state = givers.of_state(facts["name"], known.users)
        if state is not None:
            found.add("assign_to" if state.edit is not None else "move_on_the_way", state, ["state_not_kept"])
        elif known.made is not None and givers.is_made_anew(known.made) and known.factory is not None:
            found.add("factory_device", known.factory, ["made_anew"])
    elif facts["kind"] in ("parameter", "buffer", "loss-weight") and facts["device"] == "cpu":
        if known.match is not None:
            left_modules.gather(found, known.match, facts, device, known.users)
    elif facts["kind"] in ("parameter", "buffer") and facts["device"].startswith("cuda"):
        placed = placings.of_wrong_card(known.steps, device, known.users)
        if placed is not None:
            found.add("put_on_card", placed, ["put_on_wrong_card"])
    elif known.case["in_backward"]:
        hook = givers.of_unpacked(facts["history"], device, known.users)
        if hook is not None:
            found.add("move_unpacked", hook, ["unpack_hook"])


def _where_placed(found: Candidates, known: Known) -> None:
    """What follows from the call that decided where the tensor is."""
    facts, steps, device = known.facts, known.steps, known.device
    unsaid.gather(found, steps, known.way, device, known.users, known.others)
    if facts["kind"] not in ("parameter", "buffer"):
        card = placings.of_unnamed_card(steps, device, known.users, known.others)
        if card is not None:
            found.add("put_on_card", card, ["card_not_named"])
        if placings.is_moved_for(steps, known.users):
            wrong = placings.of_wrong_card(steps, device, known.users, known.others)
            if wrong is not None:
                found.add("put_on_card", wrong, ["moved_for_this_use"])
        copy = placings.of_host_copy(steps) if facts["device"] == "cpu" else None
        if copy is not None:
            found.add("drop_move", copy, ["brought_to_host"])
    made = known.made
    if made is not None and made.call is not None and made.file is not None:
        if uses.has_placed_neighbor(made.file, made.call):
            found.say("factory_device", made.facts["at"], "neighbor_is_placed")


def _on_the_way(found: Candidates, known: Known) -> None:
    """What follows from the way that the value took through the program."""
    facts, way, device, users = known.facts, known.way, known.device, known.users
    node = known.node
    match, steps, use = known.match, known.steps, known.use
    on_host = facts["device"] == "cpu"
    if way is None and match is not None and match.frame < len(known.frames) and match.way.holder is None:
        expression = ast.parse(match.name, mode="eval").body
        way = trails.follow(users, facts["device"], expression, known.frames[match.frame])
    if way is not None and way.leaders:
        _, node, context = way.leaders[0]
        way = trails.Trail(users, facts["device"])
        way.follow_in(node, context)
    dropped = None
    if way is not None and on_host:
        dropped = givers.of_dropped(way) or movers.of_dropped(way) or givers.of_thrown_away(way)
    if dropped is not None:
        found.add("assign_to", Cause(places.edit_location(dropped[1]), dropped[1], dropped[0]))
    batch = givers.of_batch(steps, device, users)
    if batch is not None:
        found.add("move_on_the_way", batch, ["made_with_rest"])
    received = prefetchers.of_received(facts["name"], steps, users)
    if received is not None:
        found.add("move_on_the_way", received, ["left_by_prefetcher"])
    if way is not None and way.owners and on_host:
        forgotten = movers.of_forgotten(*way.owners[0], device)
        if forgotten is not None:
            found.add("move_forgotten", forgotten, ["owner_moves_others"])
    if use is not None and node is not None:
        at_use = causes.at_use(use, node, way, device, users)
        if at_use is not None:
            found.add("move_at_use", *at_use)
        at_name = causes.at_name(use, node, way, device, users) if way is not None else None
        if at_name is not None and not facts["written"]:
            found.add("move_at_use", at_name)
    if way is None:
        return
    always: list[Fact] = ["host_on_purpose"] if operands.is_handed_over(facts, node) else []
    if use is not None and operands.is_needed_on_host(use, node):
        always.append("host_on_purpose")
        found.refuse("move_batch")
    if histories.is_loaded_to_host(steps):
        always.append("host_asked")
    is_batch = facts["kind"] == "batch" or any(step.facts["action"] == "received" for step in steps)
    links = causes.on_the_way(steps, way, known.steps_of_others, device, users, is_batch, not on_host, use)
    for cause, said, distance in links.causes:
        found.add("move_on_the_way", cause, [*said, *always] if said else [], distance)
    for place, said in links.of_makers:
        found.say("factory_device", place, *said)
    found.say("move_at_use", known.case["use"], *links.at_use)
