// Tests of what a project lives with: comments, patterns of paths, and who decides first.
#include "locus/engine/ignoring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace locus::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Finding finding_at(int line, std::string code = "LOC003", std::string file = "/p/net.py") {
  Finding finding;
  finding.code = std::move(code), finding.id = "id" + std::to_string(line), finding.message = "words";
  finding.cause.file = file, finding.cause.line = line;
  finding.uses.emplace_back().at = {std::move(file), line + 10, 0, line + 10, 0, "", ""};
  return finding;
}

Report report_of(std::vector<Finding> findings) {
  Report report;
  report.findings = std::move(findings);
  return report;
}

std::vector<Comment> none(const Location&) { return {}; }

CommentsAt comment_at(int line, std::string text) {
  return [line, text](const Location& place) {
    return place.line == line ? std::vector<Comment>{{line, text}} : std::vector<Comment>{};
  };
}

TEST(IgnoreComments, SayCodesAndAReason) {
  using Said = IgnoreComment;
  EXPECT_THAT(parse_comment("# locus: ignore[LOC003] moved by hand"), ElementsAre(Said{{"LOC003"}, "moved by hand"}));
  EXPECT_THAT(parse_comment("#locus:ignore[LOC003, LOC004]"), ElementsAre(Said{{"LOC003", "LOC004"}, ""}));
  EXPECT_THAT(parse_comment("# noqa  locus:  ignore[ LOC003 ,, ]  why  "), ElementsAre(Said{{"LOC003"}, "why"}));
  EXPECT_THAT(parse_comment("# locus: ignore because"), ElementsAre(Said{{}, "because"}));
  EXPECT_THAT(parse_comment("# locus: ignore[LOC003 # more"), ElementsAre(Said{{}, "[LOC003"}));
  EXPECT_THAT(parse_comment("# locus: ignore[LOC003] a # locus: ignore[LOC004] b # c"),
              ElementsAre(Said{{"LOC003"}, "a"}, Said{{"LOC004"}, "b"}));
  EXPECT_THAT(parse_comment("# type: ignore # locus: ignore[LOC001]"), ElementsAre(Said{{"LOC001"}, ""}));
}

TEST(IgnoreComments, OthersAreNone) {
  for (const char* text : {"", "locus: ignore[LOC003]", "# hocuslocus: ignore[LOC003]", "# locus: ignored[LOC003]",
                           "# locus ignore[LOC003]", "# locus: please ignore[LOC003]", "#", "# locus:"})
    EXPECT_THAT(parse_comment(text), IsEmpty()) << text;
  EXPECT_EQ(parse_comment("# locus: not this; locus: ignore[LOC002]").size(), 1u);
}

TEST(IgnorePatterns, MeanPaths) {
  const auto meant = [](const char* pattern, const char* path) { return matches(pattern, path, "/p"); };
  EXPECT_TRUE(meant("vendor/*", "/p/vendor/a.py"));
  EXPECT_FALSE(meant("vendor/*", "/p/vendor/x/a.py"));
  EXPECT_TRUE(meant("vendor/", "/p/vendor/x/a.py"));
  EXPECT_TRUE(meant("**/gen/*.py", "/p/gen/a.py"));
  EXPECT_TRUE(meant("**/gen/*.py", "/p/x/y/gen/a.py"));
  EXPECT_FALSE(meant("**/gen/*.py", "/p/x/y/agen/a.py"));
  EXPECT_TRUE(meant("./train.py", "/p/train.py"));
  EXPECT_TRUE(meant("a?.py", "/p/x/ab.py"));
  EXPECT_TRUE(meant("a?.py", "/p/a\xC3\xA9.py"));
  EXPECT_FALSE(meant("a?.py", "/p/a.py"));
  EXPECT_FALSE(meant("a.py", "/p/xa.py"));
  EXPECT_TRUE(meant("a[1].py", "/p/a[1].py"));
  EXPECT_TRUE(meant("**", "/p/x/a.py"));
  EXPECT_TRUE(meant("vendor/**/a.py", "/p/vendor/a.py"));
  EXPECT_TRUE(meant("a**z", "/p/abcz"));
  EXPECT_FALSE(meant("vendor/*", "/project/vendor/a.py"));
  EXPECT_TRUE(meant("/elsewhere/*", "/elsewhere/a.py"));
  EXPECT_TRUE(matches("a/*", "/a/b.py", "/"));
}

TEST(Ignoring, ByTheSettings) {
  Report report = report_of({finding_at(1), finding_at(2, "LOC004"), finding_at(3, "LOC005", "/p/vendor/x.py")});
  set_aside(report, {"/p/pyproject.toml", {"LOC003"}, {{"vendor/**", {"ALL"}}, {"net.py", {"LOC009"}}}, {}}, none);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "LOC004");
  ASSERT_EQ(report.ignored.size(), 2u);
  EXPECT_EQ(report.ignored[0], (Ignored{"id1", "LOC003", "/p/net.py", 1, "/p/pyproject.toml", "settings", "words"}));
  EXPECT_EQ(report.ignored[1].code, "LOC005");
}

TEST(Ignoring, ByTheOptionsFirst) {
  Report report = report_of({finding_at(1)});
  set_aside(report, {"/p/pyproject.toml", {"LOC003"}, {}, {"LOC003"}}, none);
  EXPECT_EQ(report.ignored.at(0).kind, "options");
}

TEST(Ignoring, ByACommentAtTheCauseOrAtAUse) {
  for (const int line : {1, 11}) {
    Report report = report_of({finding_at(1), finding_at(2)});
    set_aside(report, {}, comment_at(line, "# locus: ignore[LOC003] later"));
    EXPECT_EQ(report.findings.size(), 1u);
    EXPECT_EQ(report.ignored.at(0).by, "a comment at /p/net.py:" + std::to_string(line) + ": later");
    EXPECT_EQ(report.ignored[0].kind, "comment");
    EXPECT_THAT(report.notes, IsEmpty());
  }
}

TEST(Ignoring, WhatCantBeMeantIsSaidOnce) {
  Report report = report_of({finding_at(1), finding_at(1)});
  set_aside(report, {}, comment_at(1, "# locus: ignore[LOC999]"));
  EXPECT_EQ(report.findings.size(), 2u);
  EXPECT_THAT(report.notes,
              ElementsAre("/p/net.py:1: `# locus: ignore[LOC999]` names no code; `locus codes` lists them"));
  report.notes.clear();
  set_aside(report, {}, comment_at(1, "# locus: ignore"));
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("needs its codes, as in `# locus: ignore[LOC003] why`")));
}

TEST(Ignoring, MayBeDoneAgain) {
  Report report = report_of({finding_at(1)});
  const IgnoreRules rules{"", {}, {}, {"LOC003"}};
  set_aside(report, rules, none);
  report.findings.push_back(finding_at(7));
  report.findings.push_back(finding_at(1));  // of another process, say
  set_aside(report, rules, none);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.ignored.size(), 2u);
}

}  // namespace
}  // namespace locus::engine
