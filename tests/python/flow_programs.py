"""Random small programs that know which line bound each value they read: what really reaches a use.

Every value carries the number of the line that bound it; `u(line, name, value)` writes down what was read.
"""

import random

NAMES = ("a", "b", "e")


class Err(Exception):
    tag = 0

    def __iadd__(self, other):
        return other


class Stop(BaseException):
    """The run is long enough."""


class Value:
    """A value that knows its line. Adding in place gives the right side: the line that did it."""

    def __init__(self, run, tag):
        self.run = run
        self.tag = tag

    def __bool__(self):
        return self.run.c()

    def __iadd__(self, other):
        return other


class Manager:
    def __init__(self, run, tag):
        self.run = run
        self.tag = tag

    def __enter__(self):
        return Value(self.run, self.tag)

    def __exit__(self, kind, value, trace):
        return kind is not None and issubclass(kind, Err) and self.run.random.random() < 0.5


class Run:
    """One run of a program: chance decides every test, and where exceptions are raised."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seen = set()
        self.steps = 0

    def c(self):
        self.steps += 1
        if self.steps > 300:
            raise Stop
        return self.random.random() < 0.5

    def d(self, tag, _before=None):
        self.c()
        if self.random.random() < 0.04:
            raise Err
        return Value(self, tag)

    def u(self, line, name, value):
        self.seen.add((line, name, value.tag))
        self.d(0)

    def it(self, tag):
        for _ in range(self.random.randrange(4)):
            yield self.d(tag)

    def pair(self, tag):
        return [self.d(tag), Value(self, tag)]

    def mark(self, error, tag):
        error.tag = tag

    def names(self):
        given = {name: getattr(self, name) for name in ("c", "d", "u", "it", "pair", "mark")}
        return {**given, "cm": lambda tag: Manager(self, tag), "Err": Err}


class Program:
    """The text of a program: a function `main` over a few names."""

    def __init__(self, seed, straight=False):
        self.random = random.Random(seed)
        self.lines = ["def main(a):"]
        self.functions = 0
        if straight or self.random.random() < 0.7:
            self.put(1, "b = e = d({n})")
        if straight:
            for _ in range(25):
                self.simple(1)
        else:
            self.suite(1, self.random.choice([1, 2, 2, 3]), loop=False, free=True)
        self.put(1, "a = b = e = d({n})")  # all of them are local

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    def put(self, indent, line):
        self.lines.append("    " * indent + line.replace("{n}", str(len(self.lines) + 1)))

    def name(self):
        return self.random.choice(NAMES)

    def simple(self, indent):
        x = self.name()
        y = self.random.choice([name for name in NAMES if name != x])
        self.put(
            indent,
            self.random.choice(
                [
                    f"u({{n}}, '{x}', {x})",
                    f"u({{n}}, '{x}', {x})",
                    f"{x} = d({{n}})",
                    f"{x} = d({{n}}, u({{n}}, '{x}', {x}))",
                    f"{x}, {y} = d({{n}}), d({{n}}, u({{n}}, '{x}', {x}))",
                    f"{x}, {y} = pair({{n}})",
                    f"{x} += d({{n}})",
                    f"u({{n}}, '{x}', ({x} := d({{n}})))",
                    f"u({{n}}, '{y}', {y}), ({x} := d({{n}}))",
                    f"[u({{n}}, '{x}', {x}) for {x} in it({{n}}) if c()]",
                ]
            ),
        )

    def suite(self, indent, depth, loop, free):
        """Statements; `loop`: inside one, `free`: jumps are allowed."""
        functions = []
        for _ in range(self.random.randrange(2, 6)):
            kind = self.random.random()
            if depth and kind < 0.45:
                self.compound(indent, depth - 1, loop, free)
            elif kind < 0.5:
                functions.append(self.function(indent))
            elif kind < 0.55 and functions:
                self.put(indent, self.random.choice(functions) + "()")
            elif kind < 0.58:
                self.put(indent, f"del {self.name()}")
            else:
                self.simple(indent)
        if free and self.random.random() < 0.2:
            jumps = ["return", "raise Err"] + ["break", "continue"] * 2 * loop
            self.put(indent, self.random.choice(jumps))

    def function(self, indent):
        self.functions += 1
        name, x = f"f{self.functions}", self.name()
        self.put(indent, f"def {name}():")
        if self.random.random() < 0.5:
            self.put(indent + 1, f"nonlocal {x}")
            self.put(indent + 1, f"u({{n}}, '{x}', {x})")
            self.put(indent + 1, f"{x} = d({{n}})")
        self.put(indent + 1, f"u({{n}}, '{x}', {x})")
        return name

    def compound(self, indent, depth, loop, free):
        x = self.name()
        kind = self.random.choice(["if", "if", "for", "while", "forever", "try", "try", "with", "match"])
        inside = indent + 1
        if kind == "if":
            tests = ["c()", f"c() and ({x} := d({{n}}))", f"c() or ({x} := d({{n}}))", f"not ({x} := d({{n}}))"]
            tests.append(f"c() < 2 < ({x} := d({{n}})).tag")
            self.put(indent, f"if {self.random.choice(tests)}:")
            self.suite(inside, depth, loop, free)
            if self.random.random() < 0.5:
                self.put(indent, f"elif {self.random.choice(tests)}:")
                self.suite(inside, depth, loop, free)
            if self.random.random() < 0.5:
                self.put(indent, "else:")
                self.suite(inside, depth, loop, free)
        elif kind in ("for", "while", "forever"):
            heads = {"for": f"for {x} in it({{n}}):", "while": f"while c() and ({x} := d({{n}})):"}
            self.put(indent, heads.get(kind, "while True:"))
            self.put(inside, "if c():")
            self.put(inside + 1, "break" if free or kind == "forever" else "pass")
            self.suite(inside, depth, True, free)
            if self.random.random() < 0.3:
                self.put(indent, "else:")
                self.suite(inside, depth, loop, free)
        elif kind == "try":
            self.put(indent, "try:")
            self.suite(inside, depth, loop, free)
            handled = self.random.random() < 0.7
            if handled:
                self.put(indent, f"except Err as {x}:")
                self.put(inside, f"mark({x}, {len(self.lines)})")
                self.suite(inside, depth, loop, free)
                if self.random.random() < 0.4:
                    self.put(indent, "else:")
                    self.suite(inside, depth, loop, free)
            if not handled or self.random.random() < 0.4:
                self.put(indent, "finally:")
                self.suite(inside, depth, False, False)
        elif kind == "with":
            self.put(indent, self.random.choice(["with cm({n}):", f"with cm({{n}}) as {x}:"]))
            self.suite(inside, depth, loop, free)
        else:
            self.put(indent, f"match d({len(self.lines) + 2}):")
            self.put(inside, f"case {x} if c():")
            self.suite(inside + 1, depth, loop, free)
            self.put(inside, "case _:")
            self.suite(inside + 1, depth, loop, free)
