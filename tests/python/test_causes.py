"""Why tests have failed: what one edit repairs is one cause."""

from types import SimpleNamespace

from locus.pytest.causes import Causes


def finding(number, code, line, new):
    return {
        "id": str(number),
        "code": code,
        "count": 1,
        "cause": {"file": "model.py", "line": line},
        "fixes": [{"new": new}],
        "why": f"why {code}",
        "message": "",
    }


def failure(test, message):
    crash = SimpleNamespace(message=message, path="load.py", lineno=7)
    return SimpleNamespace(nodeid=test, longrepr=SimpleNamespace(reprcrash=crash))


def test_one_edit_is_one_cause_under_any_code():
    causes = Causes()
    causes.add_finding("a", finding(1, "LOC006", 3, "y = x.to(d)"))
    causes.add_finding("b", finding(2, "LOC011", 3, "y = x.to(d)"))
    causes.add_finding("c", finding(2, "LOC011", 3, "y = x.to(d)"))
    (row,) = causes.rows()
    assert (row.code, row.words, row.tests) == ("LOC011", "why LOC011", {"a", "b", "c"})
    assert causes.title() == "3 failures, 1 cause"


def test_two_edits_of_a_line_are_two_causes():
    causes = Causes()
    causes.add_finding("a", finding(1, "LOC006", 3, "y = x.to(d) + z"))
    causes.add_finding("a", finding(2, "LOC011", 3, "y = x + z.to(d)"))
    assert [row.code for row in causes.rows()] == ["LOC006", "LOC011"]


def test_findings_without_a_fix_stay_apart():
    causes = Causes()
    causes.add_finding("a", finding(1, "LOC006", 3, ""))
    causes.add_finding("a", finding(2, "LOC021", 3, ""))
    assert len(causes.rows()) == 2


def test_one_error_about_two_addresses_is_one_cause():
    causes = Causes()
    for test, address in (("a", "https://a.org/x.pth"), ("b", "http://b.org/y")):
        causes.add_report(failure(test, f"RuntimeError: can't load '{address}' after 3 tries"))
    causes.add_report(failure("c", "RuntimeError: can't load 'x.pth' after 3 tries"))
    assert [row.words for row in causes.rows()] == [
        "RuntimeError: can't load 'URL' after N tries",
        "RuntimeError: can't load 'x.pth' after N tries",
    ]
