// Random reports, full of what no program should send: they are rendered all the same, in valid UTF-8, without
// control characters, within the width. Seeds are fixed; LOCUS_FUZZ_ROUNDS makes it longer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "locus/engine/utf8.h"
#include "locus/report/json.h"
#include "locus/report/screen.h"
#include "locus/report/text.h"

namespace locus::report {
namespace {

int rounds() {
  const char* asked = std::getenv("LOCUS_FUZZ_ROUNDS");
  return asked == nullptr ? 150 : std::atoi(asked);
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

  std::vector<engine::Step> history() {
    static const char* const kActions[] = {"created", "moved", "loaded", "received", "computed", "foreign", "", "odd"};
    std::vector<engine::Step> steps(below(4));
    for (auto& step : steps) step = {kActions[below(std::size(kActions))], text(), text(), coin(), place()};
    return steps;
  }

  engine::Operand operand() {
    engine::Operand operand;
    operand.argument = text();
    operand.position = number();
    operand.expression = text();
    operand.name = text();
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
    finding.id = text();
    return finding;
  }

  engine::Report report() {
    engine::Report report;
    for (std::size_t n = below(4); n > 0; --n) report.findings.push_back(finding());
    for (std::size_t n = below(20); n > 0; --n) {
      report.transfers.push_back({text(), number(), text(), text(), big(), big(), text()});
      report.syncs.push_back({text(), number(), text(), big()});
    }
    for (std::size_t n = below(3); n > 0; --n) {
      report.memory.push_back({"cuda:" + std::to_string(n), big(), {{text(), number(), big(), big()}}});
    }
    report.program = {text(),   {text(), text()}, number(), big(), big(), static_cast<double>(big()),
                      {text()}, text(),           text()};
    report.notes = {text()};
    return report;
  }

 private:
  std::mt19937 random_;
};

/// A line may be wider than the screen only because of one word.
void expect_fits(const std::string& line, int width) {
  if (width == 0 || width_of(line) <= width) return;
  int longest = 0;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    longest = std::max(longest, width_of(line.substr(at, end - at)));
    at = end + 1;
  }
  // In front of a word that cannot be broken there is at most the gutter, a label and some indentation.
  EXPECT_GT(longest, width - 48) << width << ": " << line;
  EXPECT_LE(width_of(line) - longest, 48) << width << ": " << line;
}

void expect_harmless(const std::string& text, int width) {
  EXPECT_TRUE(engine::valid_utf8(text) == text);
  ASSERT_TRUE(text.ends_with('\n'));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    for (const char c : line) ASSERT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f) << line;
    expect_fits(line, width);
    at = end + 1;
  }
}

TEST(Fuzz, AnythingIsRendered) {
  for (int seed = 0; seed < rounds(); ++seed) {
    SCOPED_TRACE(seed);
    Source source(static_cast<unsigned>(seed));
    const engine::Report report = source.report();
    for (const int width : {0, 40, 80, 100}) {
      expect_harmless(render_text(report, {.width = width, .ledger = true, .directory = "/"}), width);
    }
    const std::string painted = render_text(report, {.width = 80, .color = true, .ledger = true, .directory = "/"});
    std::string plain;  // without what paint() put in
    for (std::size_t at = 0; at < painted.size(); ++at) {
      if (painted[at] == '\x1b') {
        at = painted.find('m', at);
      } else {
        plain += painted[at];
      }
    }
    EXPECT_TRUE(plain == render_text(report, {.width = 80, .ledger = true, .directory = "/"}));
    if (HasFailure()) return;
  }
}

TEST(Fuzz, OddWidthsAreNoMatter) {
  Source source(1);
  const engine::Report report = source.report();
  for (const int width : {std::numeric_limits<int>::min(), -1, 1, 2, 39, 41, 1000, std::numeric_limits<int>::max()}) {
    EXPECT_FALSE(render_text(report, {.width = width, .ledger = true, .ledger_rows = width, .directory = "/"}).empty());
  }
}

TEST(Fuzz, JsonRoundTripIsStable) {
  for (int seed = 0; seed < rounds(); ++seed) {
    SCOPED_TRACE(seed);
    Source source(static_cast<unsigned>(seed));
    const std::string raw = render_json(source.report());
    EXPECT_TRUE(engine::valid_utf8(raw) == raw);
    const std::string json = render_json(parse_report(raw));  // a known code has brought its reason along
    ASSERT_TRUE(render_json(parse_report(json)) == json);
  }
}

TEST(Fuzz, BrokenJsonGivesAnErrorAtWorst) {
  Source source(3);
  const std::string whole = render_json(source.report());
  int refused = 0;
  for (int seed = 0; seed < rounds(); ++seed) {
    std::string broken = whole;
    for (int n = 0; n < 3; ++n) broken[source.below(broken.size())] = static_cast<char>(source.below(256));
    if (source.coin()) broken.resize(source.below(broken.size()));
    try {
      parse_report(broken);
    } catch (const engine::FormatError& error) {
      ++refused;
      EXPECT_STRNE(error.what(), "");
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(Fuzz, CollectingAnythingIsFine) {
  engine::FindingLog log;
  for (int seed = 0; seed < rounds(); ++seed) {
    Source source(static_cast<unsigned>(seed));
    engine::Finding finding = source.finding();
    finding.count = source.number();
    for (engine::Use& use : finding.uses) use.count = source.number();
    finding.more_uses = 0;
    log.add(std::move(finding), static_cast<std::uint64_t>(seed));
  }
  EXPECT_GT(log.findings().size(), 0u);
}

}  // namespace
}  // namespace locus::report
