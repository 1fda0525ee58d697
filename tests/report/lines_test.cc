// The forms with a line or an entry for each finding: word for word in golden/forms, and harmless whatever a report
// says. LOCUS_UPDATE_GOLDEN=1 writes the files anew.
#include "locus/report/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "locus/engine/utf8.h"
#include "locus/report/hosts.h"
#include "locus/report/json.h"
#include "tests/report/random_report.h"

namespace locus::report {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const fs::path kGolden = fs::path(LOCUS_SOURCE_ROOT) / "tests/report/golden";

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TextOptions screen() {
  TextOptions options;
  options.directory = "/home/me/work";
  return options;
}

using Form = std::function<std::string(const engine::Report&)>;

const std::map<std::string, Form>& forms() {
  static const std::map<std::string, Form> all = {
      {"concise", [](const auto& report) { return render_concise(report, screen()); }},
      {"statistics", [](const auto& report) { return render_statistics(report, screen()); }},
      {"github", [](const auto& report) { return render_github(report, screen(), "/home/me"); }},
      {"gitlab", [](const auto& report) { return render_gitlab(report, "/home/me/work", "/home/me"); }},
      {"markdown", [](const auto& report) { return render_markdown(report, "/home/me/work", "/home/me"); }},
      {"next", [](const auto& report) {
         TextOptions options = screen();
         options.next = true, options.fix = "locus fix --apply train.py", options.pages = "/opt/locus/pages";
         return render_text(report, options);
       }}};
  return all;
}

engine::Report golden_of(const std::string& name) { return parse_report(content(kGolden / (name + ".json"))); }

TEST(Lines, AreWordForWord) {
  for (const auto& [form, render] : forms()) {
    for (const char* name : {"LOC003", "many", "nothing", "page"}) {
      const fs::path golden = kGolden / "forms" / (std::string(name) + "." + form);
      const std::string text = render(golden_of(name));
      if (std::getenv("LOCUS_UPDATE_GOLDEN") != nullptr) std::ofstream(golden, std::ios::binary) << text;
      EXPECT_EQ(text, content(golden)) << golden;
    }
  }
}

/// Sixty findings of three codes in two files.
engine::Report sixty() {
  engine::Report report;
  report.program.ops = 1;
  for (int i = 0; i < 60; ++i) {
    engine::Finding finding;
    finding.code = i % 3 == 0 ? "LOC003" : i % 3 == 1 ? "LOC004" : "LOC010";
    finding.cause.file = i % 2 == 0 ? "/home/me/work/train.py" : "/home/me/work/model.py", finding.cause.line = i + 1;
    finding.why = "reason " + std::to_string(i);
    finding.message = "message " + std::to_string(i);
    report.findings.push_back(std::move(finding));
  }
  return report;
}

TEST(Lines, EveryFindingHasOne) {
  TextOptions options = screen();
  options.quiet = true;
  const std::string text = render_concise(sixty(), options);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 60);
  EXPECT_THAT(text, StartsWith("train.py:1:1: error[LOC003] reason 0\n"));
  EXPECT_THAT(render_statistics(sixty(), screen()), HasSubstr("20  LOC004  error"));
}

TEST(Lines, ManyAreReadByCause) {
  const std::string folded = render_text(sixty(), screen());
  std::size_t blocks = 0;
  for (std::size_t at = 0; (at = folded.find("error[LOC", at)) != folded.npos; ++at) ++blocks;
  EXPECT_EQ(blocks, 60u);  // six in full, the others in a line
  EXPECT_EQ(static_cast<int>(std::count(folded.begin(), folded.end(), '=')), 6);
  EXPECT_THAT(folded, HasSubstr("10 findings in train.py\n"));
  EXPECT_THAT(folded, HasSubstr("note: -v shows each of them in full\n"));
  TextOptions whole = screen();
  whole.fold = false;
  EXPECT_THAT(render_text(sixty(), whole), Not(HasSubstr("-v shows")));
}

TEST(Lines, QuietSaysNothingOfNothing) {
  TextOptions options = screen();
  options.quiet = true;
  EXPECT_EQ(render_text(golden_of("nothing"), options), "");
  EXPECT_EQ(render_concise(golden_of("nothing"), options), "");
  EXPECT_THAT(render_text(golden_of("LOC003"), options), Not(HasSubstr("locus: ")));
}

TEST(Lines, WhatGitHubReadsIsOneLineEach) {
  engine::Report report = golden_of("LOC003");
  report.findings[0].why = "50% of a\nline: with, all of it";
  report.findings[0].cause.file = "/home/me/a,b:c.py";
  const std::string text = render_github(report, screen(), "/home/me");
  EXPECT_THAT(text, StartsWith("::error file=a%2Cb%3Ac.py,line="));
  EXPECT_THAT(text, HasSubstr("::50%25 of a"));
}

TEST(Lines, AnythingIsHarmless) {
  for (int seed = 0; seed < rounds(); ++seed) {
    SCOPED_TRACE(seed);
    Source source(static_cast<unsigned>(seed));
    const engine::Report report = source.report();
    for (const auto& [form, render] : forms()) {
      const std::string text = render(report);
      EXPECT_TRUE(text.empty() || text.ends_with('\n')) << form;
      EXPECT_EQ(engine::valid_utf8(text), text) << form;
    }
    const engine::Json issues = engine::parse_json(forms().at("gitlab")(report));
    std::set<std::string> prints;
    for (const auto& issue : issues) {
      EXPECT_TRUE(prints.insert(issue.at("fingerprint")).second);
      EXPECT_GE(issue.at("location").at("lines").at("begin").get<int>(), 1);
    }
    std::istringstream commands(forms().at("github")(report));
    for (std::string line; std::getline(commands, line);) {
      EXPECT_TRUE(line.starts_with("::") || line.starts_with("locus: ") || line.starts_with("       ")) << line;
    }
  }
}

}  // namespace
}  // namespace locus::report
