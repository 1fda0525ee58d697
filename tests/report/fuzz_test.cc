// Random reports, full of what no program should send: they are rendered all the same, in valid UTF-8, without
// control characters, within the width. Seeds are fixed; LOCUS_FUZZ_ROUNDS makes it longer.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "locus/engine/finding_log.h"
#include "locus/engine/utf8.h"
#include "locus/report/json.h"
#include "locus/report/screen.h"
#include "locus/report/text.h"
#include "tests/report/random_report.h"

namespace locus::report {
namespace {

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
