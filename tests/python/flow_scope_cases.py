"""More small sources for the tests of locus.program.flow, as in flow_cases.py: with, match, attributes, scopes."""

CASES = """
=== with
x = 1
with open(x) as x:  # use x: 1
    y = x  # use x: 2
print(y)  # use y: 3, ?
=== with: several items, tuple targets
with a() as x, b(x) as (y, z):  # use x: 1
    print(x, y, z)  # use x: 1; y: 1; z: 1
=== with: swallowed only, and said so
x = 1
with no_grad():
    x = 2
    go()
    x = 3
print(x)  # use x: 5, 3~, 1~
=== with: return leaves
def f(x):
    with lock:
        x = 2
        return x  # use x: 3
    print(x)  # use x: 1~, 3~
=== match: captures
match command:
    case [a, *rest]:
        print(a, rest)  # use a: 2; rest: 2
    case {"k": v, **more}:
        print(v, more)  # use v: 4; more: 4
    case Point(x=px) as point:
        print(px, point)  # use px: 6; point: 6
    case other:
        print(other)  # use other: 8
print(a, other)  # use a: 2, ?; other: 8, ?
=== match: a case for everything else
match c:
    case 1:
        x = 1
    case _:
        x = 2
print(x)  # use x: 3, 5
=== match: none may fit
x = 0
match c:
    case 1:
        x = 1
print(x)  # use x: 1, 4
=== match: guards bind and fail
match c:
    case [x] if (y := x):  # use x: 2
        print(y)  # use y: 2
    case _:
        print(x, y)  # use x: 2, ?; y: 2, ?
=== match: alternatives
match c:
    case (
        [1, x]
        | [2, _, x]
    ):
        print(x)  # use x: 3, 4
=== attributes
self.x = 1
self.x = 2
print(self.x)  # use self.x: 2
=== attributes: rebinding the owner
self.x = 1
self = make()
print(self.x)  # use self.x: ; self.x <- 2
=== attributes: in a branch, with the owner for the rest
def f(self, c):
    if c:
        self.x = 1
    print(self.x)  # use self.x: 3; self.x <- 1
=== attributes: calls overwrite nothing
self.x = 1
self.reset()
print(self.x)  # use self.x: 1
=== attributes: longer paths
cfg.a.b = 1
cfg.c = 2
print(cfg.a.b)  # use cfg.a.b: 1
cfg.a = make()
print(cfg.a.b)  # use cfg.a.b: ; cfg.a.b <- 4
=== attributes: augmented, in a loop
def step(self):
    self.n = 0
    for i in range(3):
        self.n += i  # use self.n: 2, 4^
    return self.n  # use self.n: 2, 4
=== attributes: del
self.x = 1
del self.x
print(self.x)  # use self.x: 2
=== attributes: targets of loops and with
for self.i in range(3):
    with open(f) as self.file:
        print(self.i, self.file)  # use self.i: 1; self.file: 2
=== items add
d = {}
d["a"] = 1
d["b"] = 2
print(d)  # use d: 1, 2, 3
=== items: a key in quotes overwrites its own
d = {}
d["a"] = 1
d["a"] = 2
d["b"] = 3
print(d["a"], d["c"])  # use d["a"]: 3; d["c"]: 1
=== items: a key that is not known may be any
d = {}
d["a"] = 1
d[k] = 2
print(d["a"])  # use d["a"]: 2, 3
=== items: rebinding the container
d = {}
d["a"] = 1
d = {}
print(d["a"])  # use d["a"]: 3
=== items inside items
d["a"]["b"] = 1
d["a"].x = 2
print(d["a"], d["b"])  # use d["a"]: 1, 2, free; d["b"]: free
=== puts add
xs = []
for i in range(3):
    xs.append(i)  # use xs: 1, 3^
xs.extend(more)
print(xs)  # use xs: 1, 3, 4
=== puts into an attribute
self.xs = []
self.xs.append(1)
print(self.xs)  # use self.xs: 1, 2
=== puts: functions of modules are none
xs = np.append(xs, 1)
print(np)  # use np: free
=== functions are bound where they stand
@wrap
def f(a=1):
    pass
print(f)  # use f: 2
=== defaults and decorators are read outside
x = 1
@wrap(x)  # use x: 1
def f(a=x):  # use x: 1
    x = 2
    return x  # use x: 4
=== closure: what reaches the def, and what comes later
x = 1
x = 2
def f():
    return x  # use x: 2, 5
x = 3
=== closure: parameters are its own
x = 1
def f(x, *args, y=x, **kw):  # use x: 1
    return x, args, y, kw  # use x: 2; args: 2; y: 2; kw: 2
=== closure: two levels
def f(a):
    b = a  # use a: 1
    def g():
        def h():
            return a, b, c  # use a: 1; b: 2, 7; c: free
        return h
    b = 2
    return g
=== closure: both sides of a branch
def f(c):
    if c:
        x = 1
    else:
        x = 2
    return lambda: x  # use x: 3, 5
=== lambda
x = 1
f = lambda y, z=x: x + y + z  # use x@1: 1; x@2: 1, 3; y: 2; z: 2
x = 2
=== lambda in a comprehension sees its name
fs = [lambda: i for i in range(3)]  # use i: 1
=== recursion
def f():
    return f()  # use f: 1
=== methods do not see the class's names
x = 1
class A:
    x = 2
    y = x  # use x: 3
    def f(self):
        return x  # use x: 1
=== a class's body runs at once
x = 1
class A:
    y = x  # use x: 1
x = 2
=== a class's name may be the outer one's
x = 1
class A:
    if c:
        x = 2
    y = x  # use x: 4, 1, ?
=== global: seen in the module
x = 1
def f():
    global x
    x = 2
print(x)  # use x: 1, 4
x = 3
f()
print(x)  # use x: 6, 4
=== global: read in the function
x = 1
def f():
    global x
    print(x)  # use x: 1, 5
    x = 2
    print(x)  # use x: 5
=== global skips the function around
x = 1
def f():
    x = 2
    def g():
        global x
        return x  # use x: 1
    return x  # use x: 3
=== global from a method
class A:
    def f(self):
        global x
        x = 1
print(x)  # use x: 4, free
=== nonlocal
def f():
    x = 1
    def g():
        nonlocal x
        x += 1  # use x: 2, 5
    g()
    return x  # use x: 2, 5
=== a container of the module, filled by a function
xs = []
def f(v):
    xs.append(v)  # use xs: 1, 3
f(1)
print(xs)  # use xs: 1, 3
=== an attribute of the module, set by a function
cfg = make()
def f():
    cfg.a = 1
def g():
    return cfg.a  # use cfg.a: 3; cfg.a <- 1
=== imports
import os.path, sys as system
from a import b, c as d
print(os, system, b, d)  # use os: 1; system: 1; b: 2; d: 2
=== star imports may bind any name
x = 1
from a import *
y = 2
print(x, y)  # use x: 1, 2; y: 3
def f():
    return z  # use z: 2, free
=== builtins are free
print(len)  # use len: free
=== async
async def f(xs):
    async with a() as x:
        async for y in x:  # use x: 2
            await g(y)  # use y: 3
    return [z async for z in xs]  # use z: 5; xs: 1
=== generators
def f():
    x = yield 1
    y = yield from x  # use x: 2
    return y  # use y: 3
=== exceptions by groups
try:
    x = 1
    go()
except ValueError:
    x = 2
print(x)  # use x: 2, 5
=== f-strings
x = 1
print(f"{(x := 2)} {x:>{x}}")  # use x@1: 2; x@2: 2
=== subscripts in targets are read
i = 0
xs[i], i = 1, 2  # use i: 1
=== the use in an index
i = 0
while c:
    print(xs[i])  # use i: 1, 4^
    i += 1  # use i: 1, 4^
"""

SINCE_3_11 = """
=== except star
x = 1
try:
    x = load()
except* OSError as e:
    print(x, e)  # use x: 1; e: 4
print(x)  # use x: 1, 3
"""

SINCE_3_12 = """
=== type parameters of a function
def f[T](a: T) -> T:  # use T@1: 1; T@2: 1
    return T  # use T: 1
print(T)  # use T: free
=== type parameters of a class, and an alias
class A[T](B[T]):  # use T: 1
    x: T = 1  # use T: 1
type Pair[K] = tuple[K, later]  # use K: 3; later: 4, ?
later = 1
print(Pair)  # use Pair: 3
"""
