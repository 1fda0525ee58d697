"""The HTML report in a real browser: what a person sees; that nothing runs or is fetched that should not; that it reads
well in the dark, on a narrow screen, on paper and without scripts. LOCUS_SCREENSHOTS=FOLDER keeps the pictures.
"""

import base64
import copy
import hashlib
import json
import os
import re
import struct
import zlib
from pathlib import Path

import chromium
import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "report" / "golden"
EVIL = '<script>document.title = "taken"</script>'

pytestmark = pytest.mark.skipif(
    chromium.find() is None, reason="no browser here: install the Debian package chromium (tools/test_browser.sh does)"
)


@pytest.fixture(scope="module")
def browser():
    found = chromium.Browser()
    yield found
    found.close()


@pytest.fixture
def show(browser, tmp_path):
    """show(report, **how) opens a report as a page."""
    from locus.process import reports

    def show(report, **how):
        path = tmp_path / "report.html"
        path.write_bytes(reports.render(reports.load(json.dumps(report).encode()), "html"))
        return browser.open(path, **how)

    return show


@pytest.fixture
def report():
    return json.loads((GOLDEN / "page.json").read_text(encoding="utf-8"))


def keep(name, page, whole=False):
    folder = os.environ.get("LOCUS_SCREENSHOTS")
    if folder:
        Path(folder, f"{name}.png").write_bytes(page.screenshot(whole))


def pixels(png):
    """(width, rows of RGB bytes) of a PNG, enough to see colors."""
    at, data, width, channels = 8, b"", 0, 0
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, channels = struct.unpack(">I", body[:4])[0], {2: 3, 6: 4}[body[9]]
        if kind == b"IDAT":
            data += body
        at += 12 + size
    raw, rows, stride = zlib.decompress(data), [], width * channels
    last = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        line, filter_ = bytearray(raw[start + 1 : start + 1 + stride]), raw[start]
        for i in range(stride):
            a = line[i - channels] if i >= channels else 0
            b, c = last[i], last[i - channels] if i >= channels else 0
            if filter_ == 1:
                add = a
            elif filter_ == 2:
                add = b
            elif filter_ == 3:
                add = (a + b) // 2
            elif filter_ == 4:
                guess = a + b - c
                add = min((abs(guess - a), 0, a), (abs(guess - b), 1, b), (abs(guess - c), 2, c))[2]
            else:
                add = 0
            line[i] = (line[i] + add) & 0xFF
        last = bytes(line)
        rows.append([tuple(last[i : i + 3]) for i in range(0, stride, channels)])
    return rows


def test_says_what_is_wrong_and_what_to_change(show, report):
    page = show(report)
    text = page.evaluate("document.body.innerText")
    assert "3 findings" in text
    finding, edits = report["findings"][1], page.evaluate("document.querySelector('.edits').innerText")
    assert finding["culprit"]["name"] in edits and finding["fixes"][0]["new"].strip() in edits
    for heading in ("What to change", "Where the model is", "Memory", "Transfers", "Synchronizations"):
        assert heading in text
    # The first edit is in sight without scrolling.
    assert page.evaluate("document.querySelector('.edits tr').getBoundingClientRect().bottom < innerHeight")
    assert page.evaluate("document.querySelectorAll('.finding').length") == 3
    assert page.evaluate("document.querySelectorAll('.path .lane li').length") >= 6
    assert page.evaluate("document.querySelectorAll('.chart svg path').length") == 4
    assert page.complaints() == []
    assert page.requests() == [page.evaluate("location.href")]


def test_the_script_is_the_one_that_the_page_allows(report):
    from locus.process import reports

    page = reports.render(reports.load(json.dumps(report).encode()), "html").decode()
    script = re.search(r"<script>(.*?)</script>", page, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in page, f'put "{digest}" into locus/report/html_script.cc'


def test_hostile_names_are_only_text(show, report):
    finding = report["findings"][0]
    finding["culprit"]["name"] = finding["operands"][0]["expression"] = finding["operands"][0]["name"] = EVIL
    finding["message"] = finding["why"] = f"{EVIL} `{EVIL}` \"quoted\" 'single' &amp;"
    finding["fixes"][0].update(old=f"a = {EVIL}", new=f"b = {EVIL}", note=EVIL)
    finding["cause"]["file"] = finding["uses"][0]["file"] = "/tmp/\"we'ird <b>\udcff/na&me.py"
    finding["uses"][0]["text"] = f"x = {EVIL} + 1"
    finding["id"], finding["code"] = EVIL, f"LOC{EVIL}"  # what does not begin so is refused
    report["program"].update(script=EVIL, argv=[EVIL], torch=EVIL)
    report["notes"] = [EVIL]
    for line in report["transfers"]:
        line.update(file=EVIL, note='" onmouseover="document.title=1')
    report["models"][0]["rows"][0]["name"] = report["models"][0]["rows"][2]["device"] = EVIL
    page = show(report)
    assert page.evaluate("document.title") == f"{EVIL} – Locus"
    assert page.evaluate("document.scripts.length") == 1
    assert (
        page.evaluate(
            "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes])"
            ".filter(a => a.name.startsWith('on')).length"
        )
        == 0
    )
    assert EVIL in page.evaluate("document.querySelector('.edits').innerText")
    assert page.complaints() == []


def test_no_other_script_may_run(show, report):
    page = show(report)
    page.evaluate("void document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">')")
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert page.evaluate("document.title").endswith("Locus")
    assert page.complaints() != []  # the page's policy refused the picture


def test_filter_folds_and_anchors(show, report):
    page = show(report)
    name = report["findings"][1]["culprit"]["name"]
    page.evaluate(f"(() => {{ filter.value = {json.dumps(name)}; filter.dispatchEvent(new Event('input')) }})()")
    shown = "[...document.querySelectorAll('.finding')].filter(f => f.checkVisibility()).map(f => f.id)"
    assert "f2" in page.evaluate(shown) and len(page.evaluate(shown)) < 3
    page.evaluate("(() => { filter.value = ''; filter.dispatchEvent(new Event('input')) })()")
    page.evaluate("collapse.click()")
    assert page.evaluate("document.querySelectorAll('.finding[open]').length") == 0
    page.evaluate("document.querySelector('.edits a[href=\"#f3\"]').click()")
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert page.evaluate("[...document.querySelectorAll('.finding[open]')].map(f => f.id)") == ["f3"]
    page.evaluate("expand.click()")
    assert page.evaluate("document.querySelectorAll('.finding[open]').length") == 3
    assert page.complaints() == []


def test_keys_reach_everything(show, report):
    page = show(report)
    seen = []
    for _ in range(12):
        page.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim()"))
    assert seen[0] == "to the report" and "Findings" in seen and "1" in seen
    page.evaluate("document.querySelector('.finding summary').focus()")
    page.press("Enter")
    assert page.evaluate("document.querySelector('.finding').open") is False


def test_reads_without_scripts(show, report):
    page = show(report, scripts=False)
    picture = page.screenshot()
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert page.evaluate("document.querySelectorAll('.finding[open]').length") == 3
    assert page.evaluate("[...document.querySelectorAll('button')].filter(b => b.checkVisibility()).length") == 0
    assert len(picture) > 20_000


def luminance(color):
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


COLORS = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && [...e.childNodes].some(
  n => n.nodeType == 3 && n.data.trim())).map(e => {
    const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
    const parse = (text) => {
      const c = window.brush ??= document.createElement('canvas').getContext('2d', {willReadFrequently: true});
      c.fillStyle = text; c.clearRect(0, 0, 1, 1); c.fillRect(0, 0, 1, 1);
      const d = c.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255];
    };
    const layers = [];
    for (let n = e; n; n = n.parentElement) layers.push(parse(getComputedStyle(n).backgroundColor));
    const below = layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
    return [e.className + ' ' + e.tagName + ' ' + e.textContent.slice(0, 30),
            parse(getComputedStyle(e).color).slice(0, 3), below];
  })"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_have_contrast(show, report, scheme):
    page = show(report, dark=scheme == "dark")
    keep(scheme, page)
    keep(f"{scheme}-whole", page, whole=True)
    corner = pixels(page.screenshot(size=8))[5][5]
    assert (luminance(corner) < 0.05) == (scheme == "dark"), corner
    weak = {
        what: round(contrast(front, back), 2)
        for what, front, back in page.evaluate(COLORS)
        if contrast(front, back) < 4.5
    }
    assert weak == {}, "text that is hard to read"


@pytest.mark.parametrize("width", [320, 500, 760, 1600])
def test_fits_any_width(show, report, width):
    report["findings"][0]["culprit"]["name"] = "model." + "a_very_long_name_" * 20
    report["findings"][0]["why"] = "because_of_" * 60
    page = show(report, width=width)
    keep(f"width-{width}", page, whole=True)
    wide = page.evaluate(
        f"""[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > {width} + 1
           && !e.closest('.scroll, nav, .sr')).map(e => e.className + ' ' + e.textContent.slice(0, 40))"""
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width, f"the page scrolls sideways: {wide}"
    if width <= 500:
        edits = "[...document.querySelectorAll('.diff>div')].map(e => e.scrollWidth <= e.parentElement.clientWidth + 1)"
        shown = page.evaluate(edits)
        assert shown and all(shown), "an edit is cut off"


def test_nothing_found_looks_good(show, report):
    report["findings"] = []
    page = show(report)
    keep("nothing", page)
    text = page.evaluate("document.body.innerText")
    assert "No placement mistakes" in text and "What to change" not in text
    assert page.evaluate("[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.hash))")
    assert page.complaints() == []


def test_a_thousand_findings(show, report):
    template = report["findings"]
    report["findings"] = [copy.deepcopy(template[i % 3]) for i in range(1000)]
    page = show(report)
    keep("thousand", page)
    assert "1,000 findings" in page.evaluate("document.body.innerText")
    assert page.evaluate("document.querySelectorAll('.finding[open]').length") == 3
    assert page.complaints() == []


def test_prints_every_finding(show, report):
    page = show(report)
    page.evaluate("collapse.click()")
    pdf = page.print()
    assert pdf.startswith(b"%PDF") and len(pdf) > 30_000
    assert page.evaluate("document.querySelectorAll('.finding[open]').length") == 3
