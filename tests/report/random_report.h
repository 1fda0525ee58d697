// Random reports, full of what no program should send: for tests that any report can be rendered. Seeds are fixed;
// LOCUS_FUZZ_ROUNDS makes the tests longer.
#pragma once

#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "locus/engine/report.h"

namespace locus::report {

inline int rounds() {
#ifdef __SANITIZE_THREAD__
  constexpr int kUsual = 15;  // reports are made by one thread: there is little to be seen
#else
  constexpr int kUsual = 150;
#endif
  const char* asked = std::getenv("LOCUS_FUZZ_ROUNDS");
  return asked == nullptr ? kUsual : std::atoi(asked);
}

class Source {
 public:
  explicit Source(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_); }
  bool coin() { return below(2) == 0; }

  std::string text() {
    static const std::vector<std::string> kPieces = {"x",
                                                     "self.cache",
                                                     " + ",
                                                     " ",
                                                     "\t",
                                                     "\n",
                                                     "\r\n",
                                                     "名前",
                                                     "e\u0301",
                                                     "\U0001F600",
                                                     "\x1b[31m",
                                                     "\xff",
                                                     "\xc3",
                                                     "\u202e",
                                                     "cuda:0",
                                                     "train.py",
                                                     "/",
                                                     "…",
                                                     "\xed\xa0\x80",
                                                     std::string(1, '\0'),
                                                     "\\",
                                                     "\"",
                                                     "{}",
                                                     "<script>alert(1)</script>",
                                                     "\"><img src=x onerror=alert(1)>",
                                                     "' onmouseover='alert(1)",
                                                     "</style><!--",
                                                     "&lt;",
                                                     "`",
                                                     "%s",
                                                     "a_long_identifier_that_goes_on_and_on"};
    std::string out;
    if (below(4) == 0) return out;
    const std::size_t pieces = below(10) == 0 ? 300 : 12;
    for (std::size_t n = below(pieces); n > 0; --n) out += kPieces[below(kPieces.size())];
    return out;
  }

  int number() {
    static constexpr int kOdd[] = {
        0, -1, 1, 9, 10, 80, 1000, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
    return coin() ? static_cast<int>(below(60)) : kOdd[below(std::size(kOdd))];
  }

  std::int64_t big() { return coin() ? number() : std::int64_t{number()} * std::numeric_limits<int>::max(); }

  engine::Location place() {
    return {text(), number(), number(), number(), number(), text(), coin() ? text() : text() + "a + b" + text()};
  }
  std::optional<engine::Location> maybe_place() { return coin() ? std::optional(place()) : std::nullopt; }

  template <class Enum>
  Enum word() {
    return static_cast<Enum>(below(engine::kCount<Enum>));
  }

  engine::Candidate candidate() {
    engine::Candidate candidate;
    candidate.edit = word<engine::EditKind>();
    candidate.at = place();
    if (coin()) candidate.fix = engine::Fix{text(), number(), text(), text(), coin(), text()};
    for (std::size_t n = below(4); n > 0; --n) candidate.facts.push_back(word<engine::Fact>());
    candidate.distance = number();
    candidate.name = text();
    return candidate;
  }

  std::vector<engine::Step> history() {
    std::vector<engine::Step> steps(below(4));
    for (auto& step : steps) step = {word<engine::Action>(), text(), text(), coin(), place()};
    return steps;
  }

  engine::Operand operand() {
    engine::Operand operand;
    operand.argument = text();
    operand.position = number();
    operand.expression = text();
    operand.name = text();
    operand.kind = word<engine::Kind>();
    operand.device = text();
    for (std::size_t n = below(12); n > 0; --n) operand.shape.push_back(big());
    operand.dtype = text();
    operand.culprit = coin();
    operand.history = history();
    if (coin()) operand.owner = engine::Owner{text(), text(), text(), text(), text(), maybe_place(), text(), text()};
    return operand;
  }

  engine::Finding finding() {
    engine::Finding finding;
    finding.code = coin() ? std::string(engine::all_codes()[below(engine::all_codes().size())].code) : text();
    finding.severity = coin() ? engine::Severity::kError : engine::Severity::kWarning;
    finding.reason = text();
    finding.message = text();
    finding.op = text();
    finding.cause = place();
    finding.culprit.name = text();
    if (coin()) finding.culprit.kind = word<engine::Kind>();
    for (std::size_t n = below(3); n > 0; --n) finding.candidates.push_back(candidate());
    finding.culprit.device = text();
    for (std::size_t n = below(5); n > 0; --n) {
      finding.uses.push_back({place(), text(), big(), big(), maybe_place(), maybe_place()});
    }
    finding.more_uses = coin() ? 0 : big();
    for (std::size_t n = below(10); n > 0; --n) finding.operands.push_back(operand());
    finding.history = history();
    finding.why = text();
    finding.forward = maybe_place();
    finding.in_backward = coin();
    for (std::size_t n = below(6); n > 0; --n) {
      finding.fixes.push_back({text(), number(), text(), text(), coin(), text()});
    }
    finding.count = big();
    finding.first_step = big();
    for (std::size_t n = below(3); n > 0; --n) finding.notes.push_back(text());
    for (std::size_t n = below(40); n > 0; --n) finding.ranks.push_back(number());
    finding.id = text();
    return finding;
  }

  engine::Model model() {
    static const char* const kKinds[] = {"module", "module", "parameter", "buffer", "plain-attribute", ""};
    engine::Model model{text(), text(), {}, big()};
    for (std::size_t n = below(30); n > 0; --n) {
      model.rows.push_back({coin() ? static_cast<int>(below(5)) : number(),
                            text(),
                            text(),
                            kKinds[below(std::size(kKinds))],
                            text(),
                            {big()},
                            text(),
                            big(),
                            coin()});
    }
    return model;
  }

  engine::Report report() {
    engine::Report report;
    for (std::size_t n = below(4); n > 0; --n) report.findings.push_back(finding());
    for (std::size_t n = below(20); n > 0; --n) {
      report.transfers.push_back({text(), number(), text(), text(), big(), big(), text()});
      report.syncs.push_back({text(), number(), text(), big()});
    }
    for (std::size_t n = below(3); n > 0; --n) {
      report.memory.push_back({"cuda:" + std::to_string(n), big(), {{text(), number(), big(), big()}}, big(), {}});
      auto& timeline = report.memory.back().timeline;
      timeline.events = big();
      for (auto* column : {&timeline.low, &timeline.high, &timeline.step}) {
        for (std::size_t points = below(9); points > 0; --points) column->push_back(big());
      }
      for (std::size_t modules = below(4); modules > 0; --modules) {
        report.memory.back().by_module.push_back({text(), big()});
      }
      for (std::size_t lines = below(3); lines > 0; --lines) {
        report.memory.back().growing.push_back({text(), number(), big(), big(), text(), text()});
      }
      for (std::size_t categories = below(4); categories > 0; --categories) {
        timeline.by_category.push_back({below(2) == 0 ? "parameters" : text(), {}});
        for (std::size_t points = below(9); points > 0; --points) timeline.by_category.back().bytes.push_back(big());
      }
    }
    for (std::size_t n = below(3); n > 0; --n) report.models.push_back(model());
    report.program = {text(),
                      {text(), text()},
                      number(),
                      big(),
                      big(),
                      number(),
                      static_cast<double>(big()),
                      {text()},
                      text(),
                      text(),
                      coin() ? text() : "",
                      coin(),
                      coin() ? text() : "",
                      coin()};
    for (std::size_t n = below(3); n > 0; --n) report.program.hosts.push_back({text(), {number(), number()}, coin()});
    report.notes = {text()};
    for (std::size_t n = below(3); n > 0; --n) {
      report.ignored.push_back({text(), text(), text(), number(), text(), coin() ? "comment" : text(), text()});
      report.not_run.push_back({text(), text(), number()});
    }
    if (coin()) {
      engine::Comparison& since = report.baseline.emplace();
      since.file = text(), since.known = big();
      since.gone = report.ignored;
      since.more.push_back({coin() ? "memory" : "transfer", text(), number(), text(), big(), big()});
      for (const engine::Finding& each : report.findings) {
        if (coin()) since.new_ids.push_back(each.id);
      }
    }
    return report;
  }

 private:
  std::mt19937 random_;
};

}  // namespace locus::report
