// The page's script. Everything can be read without it; it copies edits, filters and folds findings, and opens what is
// folded before the page is printed. The hash belongs to this very text: tests/python/test_html.py says the new one.
#include "locus/report/html_parts.h"

namespace locus::report {

const char* const kHtmlScript = R"js(
"use strict";
const findings = [...document.querySelectorAll("details.finding")];
for (const hidden of document.querySelectorAll(".tools[hidden]")) hidden.hidden = findings.length < 2;
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    const lines = [...button.closest(".fix").querySelectorAll(".diff .ins code")].map((line) => line.textContent);
    await navigator.clipboard.writeText(lines.join("\n"));
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
}
const setAll = (open) => { for (const finding of findings) finding.open = open; };
document.getElementById("expand")?.addEventListener("click", () => setAll(true));
document.getElementById("collapse")?.addEventListener("click", () => setAll(false));
document.getElementById("filter")?.addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const finding of findings) {
    const text = finding.textContent.toLowerCase();
    finding.hidden = !words.every((word) => text.includes(word));
  }
});
const openTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();
addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
});
)js";

const char* const kHtmlScriptHash = "lLFhDpAvBfoKik/GOjL2wZYGUolj4Fl8X4WmbI7QdVw=";

}  // namespace locus::report
