"""Small sources for the tests of locus.program.flow: uses, and the lines of the definitions that reach them.

A case begins at `=== title`; its lines count from 1. A comment `# use x: 3, 7` says that the `x` read on that line may
be what lines 3 and 7 bind, and nothing else. `x@2` is the second `x` that is read on the line. After a line, `^` says
that it comes from an earlier iteration only, `~` only when a context manager swallows an exception. Instead of a line,
`free` is bound outside of everything here, and `?` may be unbound. `self.x <- 1` names the owners of an attribute.
The others are in flow_scope_cases.py.
"""

CASES = """
=== a straight line: the last binding
x = 1
x = 2
print(x)  # use x: 2
=== the right side is read before the left is bound
x = load()
x = x.to(device)  # use x: 1
print(x)  # use x: 2
=== a name that is bound below
print(x)  # use x: ?
x = 1
=== swapped
a = 1
b = 2
a, b = b, a  # use a: 1; b: 2
print(a, b)  # use a: 3; b: 3
=== several targets
a = b = c = make()
print(a, b, c)  # use a: 1; b: 1; c: 1
=== nested and starred targets
a, (b, *c) = make()
[d, *e, f] = c  # use c: 1
print(a, b, d, e, f)  # use a: 1; b: 1; d: 2; e: 2; f: 2
=== a target that is read by the next target
i = 0
i, a[i] = 1, 2
print(i)  # use i: 2
=== augmented assignment reads and binds
x = 1
x += x  # use x@1: 1; x@2: 1
print(x)  # use x: 2
=== annotated assignment
x: int = 1
y: int
print(x, y)  # use x: 1; y: ?
=== a bare annotation makes a name local
y = 1
def f():
    y: int
    print(y)  # use y: ?
=== if
x = 1
if c:
    x = 2
print(x)  # use x: 1, 3
=== if and else
x = 1
if c:
    x = 2
else:
    x = 3
print(x)  # use x: 3, 5
=== elif without else
if a:
    x = 1
elif b:
    x = 2
print(x)  # use x: 2, 4, ?
=== elif with an arm that leaves
def f(a, b):
    if a:
        x = 1
    elif b:
        return
    else:
        x = 2
    print(x)  # use x: 3, 7
=== a constant test is not special
x = 1
if True:
    x = 2
print(x)  # use x: 1, 3
=== for: before, inside, after
x = 0
for x in xs:
    print(x)  # use x: 2
print(x)  # use x: 2, 1
=== for: carried around
x = 0
for i in xs:
    print(x)  # use x: 1, 4^
    x = i
=== for: bound after the use in an inner loop
for i in xs:
    for j in ys:
        print(x)  # use x: 4^, 5^, ?
        x = j
    x = i
=== an inner loop's last binding is not carried to what follows it
for i in xs:
    for j in ys:
        x = j
    print(x)  # use x: 3, ?
=== for and else
for x in xs:
    y = 1
    if x:
        break
else:
    y = 2
print(y)  # use y: 2, 6
=== break keeps what was bound before it
x = 1
for i in xs:
    x = 2
    if i:
        x = 3
        break
    x = 4
print(x)  # use x: 1, 5, 7
=== continue goes to the head
x = 1
for i in xs:
    print(x)  # use x: 1, 5^, 7^
    if i:
        x = 2
        continue
    x = 3
print(x)  # use x: 1, 5, 7
=== while: the test sees what the body binds
x = 1
while x < 5:  # use x: 1, 3^
    x = x + 1  # use x: 1, 3^
print(x)  # use x: 1, 3
=== while True ends by break only
x = 1
while True:
    x = 2
    if c:
        break
    x = 3
print(x)  # use x: 3
=== while True without break never ends
x = 1
while True:
    x = 2
print(x)  # use x:
=== while and else
while c:
    x = 1
    if d:
        break
else:
    x = 2
print(x)  # use x: 2, 6
=== walrus in a test
while (x := read()):
    print(x)  # use x: 1
    x = 0
print(x)  # use x: 1
=== walrus after and: bound in the body
x = 0
if a and (x := b):
    print(x)  # use x: 2
else:
    print(x)  # use x: 1, 2
=== walrus after or: bound where it is false
x = 0
if a or (x := b):
    print(x)  # use x: 1, 2
else:
    print(x)  # use x: 2
=== walrus under not
x = 0
if not (a and (x := b)):
    pass
else:
    print(x)  # use x: 2
=== walrus: evaluation order in a call
x = 1
print(x, (x := 2), x)  # use x@1: 1; x@2: 2
=== walrus in an arm of a conditional expression
x = 1
y = (x := 2) if c else x  # use x: 1
print(x)  # use x: 1, 2
=== walrus in a chain of comparisons
x = 1
if a < b < (x := 3):
    print(x)  # use x: 2
print(x)  # use x: 1, 2
=== walrus as an operand of and, for its value
x = 1
y = c and (x := 2)
print(x)  # use x: 1, 2
=== walrus in a dictionary: keys and values take turns
x = 1
d = {(x := 2): x, x: (x := 3)}  # use x@1: 2; x@2: 2
print(x)  # use x: 2
=== walrus in a comprehension binds outside of it
if any((hit := v) > 1 for v in vs):  # use v: 1
    print(hit)  # use hit: 1, ?
=== comprehension: a scope of its own
x = 1
y = [x for x in xs]  # use x: 2
print(x)  # use x: 1
=== comprehension: the first iterable is read outside
x = [1]
y = [x for x in x]  # use x@1: 2; x@2: 1
=== comprehension: two loops and a condition
t = 1
y = [a + b + t for a in xs if a for b in a if b]  # use a@1: 2; b@1: 2; t: 1
=== comprehension: nested
x = 1
y = [[x for x in x] for x in xs]  # use x@1: 2; x@2: 2
print(x)  # use x: 1
=== comprehension of a dictionary
k = 1
y = {k: v for k, v in d.items()}  # use k: 2; v: 2
print(k)  # use k: 1
=== comprehension in a class does not see the class
x = 1
class A:
    x = 2
    y = [x for _ in xs]  # use x: 1
    z = [i for i in x]  # use x: 3
=== generator expression as an argument: used up there
s = 1
y = sum(s * v for v in vs)  # use s: 1
s = 2
=== generator expression kept: sees later bindings
s = 1
y = (s * v for v in vs)  # use s: 1, 3; v: 2
s = 2
=== del
x = 1
del x
print(x)  # use x: 2, ?
=== del in a branch
x = 1
if c:
    del x
print(x)  # use x: 1, 3, ?
=== del of an item removes nothing
x = {}
del x["a"]  # use x: 1
print(x)  # use x: 1
=== return
def f(c):
    x = 1
    if c:
        x = 2
        return x  # use x: 4
    return x  # use x: 2
=== code after return
def f():
    x = 1
    return x  # use x: 2
    print(x)  # use x:
=== raise
def f(c):
    if c:
        x = 1
    else:
        raise ValueError
    return x  # use x: 3
=== assert
x = 1
assert (x := check()), x  # use x: 2
print(x)  # use x: 2
=== try: the handler sees what was bound before
x = 1
try:
    x = load()
except OSError:
    print(x)  # use x: 1
print(x)  # use x: 1, 3
=== try: any statement may raise
x = 1
try:
    x = 2
    x = 3
    go()
except OSError:
    print(x)  # use x: 1, 3, 4
=== try: the other common shape
try:
    x = load()
except OSError:
    x = None
print(x)  # use x: 2, 4
=== try: a handler that leaves
def f():
    try:
        x = load()
    except OSError:
        return
    print(x)  # use x: 3
=== try and else: else is not guarded
x = 1
try:
    x = 2
except OSError:
    pass
else:
    x = 3
    go()
print(x)  # use x: 1, 7
=== finally overwrites
x = 1
try:
    x = load()
finally:
    x = 3
print(x)  # use x: 5
=== finally does not mix its ways
x = 1
try:
    x = load()
finally:
    close(x)  # use x: 1, 3
print(x)  # use x: 3
=== finally on return
def f():
    x = 1
    try:
        x = 2
        return x  # use x: 4
    finally:
        print(x)  # use x: 2, 4
    print(x)  # use x:
=== finally on break
for i in xs:
    x = 1
    try:
        if i:
            x = 2
            break
        x = 3
    finally:
        y = x  # use x: 2, 5, 7
    print(x)  # use x: 7
print(x, y)  # use x: 5, 7, ?; y: 9, ?
=== finally that returns stops everything
def f():
    x = 1
    try:
        x = 2
    finally:
        return x  # use x: 2, 4
    print(x)  # use x:
=== finally in a finally
try:
    x = 1
finally:
    try:
        y = 1
    finally:
        z = 2
print(x, y, z)  # use x: 2; y: 5; z: 7
=== a name of a handler is gone after it
e = 1
try:
    go()
except OSError as e:
    print(e)  # use e: 4
print(e)  # use e: 1, 4, ?
=== a bare except catches all
def f():
    x = 1
    try:
        x = 2
        go()
    except:
        x = 3
    print(x)  # use x: 4, 7
=== nested try: inner handlers raise to outer ones
x = 1
try:
    try:
        x = 2
        go()
    except OSError:
        x = 3
        go()
except ValueError:
    print(x)  # use x: 1, 4, 7
"""


def read(text: str) -> list[tuple[str, str]]:
    """The cases of a text: titles and sources."""
    parts = [part.partition("\n") for part in text.split("=== ")[1:]]
    return [(title, source) for title, _, source in parts]
