// The page itself: head, verdict, numbers of the run, and the sections in the order in which they are needed.
#include "locus/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "locus/engine/verdict.h"
#include "locus/report/closing.h"
#include "locus/report/html_parts.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"
#include "locus/version.h"

namespace locus::report {

using engine::Report;
using engine::Severity;

namespace {

constexpr std::size_t kMaxNotes = 50, kMaxHosts = 64;

std::string_view class_of(const Report& report) {
  switch (judge(report)) {
    case engine::Verdict::kFindings:
      return std::any_of(report.findings.begin(), report.findings.end(),
                         [](const auto& finding) { return finding.severity == Severity::kError; })
                 ? "error"
                 : "warning";
    default:
      return engine::is_conclusive(report) ? "ok" : "warning";
  }
}

std::string verdict(const Report& report) {
  Headline words = headline(report);
  words.what.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(words.what.front())));
  const std::size_t text = words.rest.find_first_not_of(",: ");  // type sets it apart here
  const std::string small =
      text == words.rest.npos ? "" : " <small>" + html_words(words.rest.substr(text), 400) + "</small>";
  return fmt::format("<p class=\"verdict {}\">{}{}</p>", class_of(report), html_words(words.what, 200), small);
}

void fact(std::string& out, std::string_view name, const std::string& value) {
  if (!value.empty()) out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
}

std::string facts(const Report& report) {
  const Totals totals = totals_of(report);
  std::string out = "<dl class=facts>";
  if (report.program.steps > 0) fact(out, "steps", grouped(report.program.steps));
  if (report.program.ranks > 0) fact(out, "ranks", grouped(report.program.ranks));
  std::string hosts;
  for (std::size_t i = 0; i < std::min<std::size_t>(report.program.hosts.size(), kMaxHosts); ++i)
    hosts += "<div>" + html_words(host_words(report.program.hosts[i]), 200) + "</div>";
  if (report.program.hosts.size() > kMaxHosts) hosts += "<div>…</div>";
  fact(out, "hosts", hosts);
  fact(out, "operators checked", grouped(report.program.ops));
  fact(out, "transfers", fmt::format("{} <small>{}</small>", grouped(totals.transfers), bytes_text(totals.bytes)));
  fact(out, "synchronizations", grouped(totals.syncs));
  std::string peaks;
  for (std::size_t i = 0; i < report.memory.size() && i < 4; ++i) {
    peaks += fmt::format("<span class=peakof>{} {}</span>", device_chip(report.memory[i].device),
                         bytes_text(report.memory[i].peak));
  }
  if (report.memory.size() > 4) peaks += "…";
  fact(out, "peak memory", peaks);
  return out + "</dl>\n";
}

std::string notes(const Report& report) {
  std::string out;
  for (std::size_t i = 0; i < report.notes.size() && i < kMaxNotes; ++i) {
    out += "<p class=note><b>Note</b> " + html_prose(report.notes[i]) + "</p>\n";
  }
  if (report.notes.size() > kMaxNotes) {
    out += "<p class=dim>… and " + counted_more(static_cast<std::int64_t>(report.notes.size() - kMaxNotes), "note") +
           "</p>\n";
  }
  return out;
}

std::string footer(const Report& report) {
  const engine::Program& program = report.program;
  std::string command;
  for (std::size_t i = 0; i < program.argv.size() && i < 40; ++i) command += " " + program.argv[i];
  std::string out = "<footer>";
  out += html_code(program.script + command, 240);
  out += fmt::format(" · {:.1f} s", program.seconds);
  if (!program.devices.empty()) {
    out += " · " + counted(static_cast<std::int64_t>(program.devices.size()), "CUDA device");
  }
  if (!program.torch.empty()) out += " · PyTorch " + html_words(program.torch, 40);
  return out + " · Locus " + html_words(program.locus.empty() ? kVersion : program.locus, 40) + "</footer>\n";
}

}  // namespace

std::string render_html(const Report& report, const HtmlOptions& options) {
  std::string directory = options.directory;
  std::error_code ignored;
  if (directory.empty()) directory = std::filesystem::current_path(ignored).string();

  const std::string script = html_words(short_path(report.program.script, directory), 160);
  const std::string name = script.empty() ? "a program" : script;
  struct Section {
    const char *id, *title;
    std::string html;
  };
  const Section sections[] = {{"edits", "Edits", html_edits(report, directory)},
                              {"findings", "Findings", html_findings(report, directory)},
                              {"cluster", "Cluster", html_cluster(report, directory)},
                              {"dry", "Dry run", html_dry(report, directory)},
                              {"since", "Since", html_since(report, directory)},
                              {"ignored", "Ignored", html_ignored(report, directory)},
                              {"notrun", "Not run", html_not_run(report, directory)},
                              {"models", "Model", html_models(report)},
                              {"memory", "Memory", html_memory(report, directory)},
                              {"transfers", "Transfers", html_transfers(report, directory)},
                              {"syncs", "Synchronizations", html_syncs(report, directory)}};

  std::string out = "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n";
  out += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n",
      kHtmlScriptHash);
  out +=
      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n<meta name=color-scheme "
      "content=\"light dark\">\n";
  out += fmt::format(
      "<title>{} – Locus</title>\n<style>{}</style>\n</head>\n<body>\n<a class=skip href=\"#main\">to the "
      "report</a>\n",
      name, kHtmlStyle);
  out += fmt::format("<header><div class=brand>Locus</div><h1>{}</h1>{}\n{}</header>\n", name, verdict(report),
                     facts(report));
  out += "<nav aria-label=sections>";
  for (const Section& section : sections) {
    if (!section.html.empty()) out += fmt::format("<a href=\"#{}\">{}</a>", section.id, section.title);
  }
  out += "</nav>\n<main id=main>\n" + notes(report);
  for (const Section& section : sections) out += section.html;
  out += "</main>\n" + footer(report);
  return out + "<script>" + kHtmlScript + "</script>\n</body>\n</html>\n";
}

}  // namespace locus::report
