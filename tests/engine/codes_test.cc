// Tests of the list of codes: complete, in order, each with its words.
#include "locus/engine/codes.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

namespace locus::engine {
namespace {

// Other parts of Locus send these; a reason without a code would be a finding without a page.
constexpr const char* kReasons[] = {"plain-attribute",
                                    "plain-container",
                                    "default-device",
                                    "batch-not-moved",
                                    "inconsistent-source",
                                    "to-not-assigned",
                                    "optimizer-state",
                                    "loss-weight",
                                    "model-not-moved",
                                    "handoff-missing",
                                    "replica-pinned",
                                    "index",
                                    "generator",
                                    "lengths-must-be-cpu",
                                    "host-access",
                                    "fork-cuda",
                                    "read-too-early",
                                    "checkpoint",
                                    "cache",
                                    "gradient",
                                    "other",
                                    "unfinished-reduction",
                                    "ready-twice",
                                    "ranks-part-ways",
                                    "rank-missing",
                                    "shared-device",
                                    "shared-checkpoint",
                                    "cpu-collective",
                                    "scattered-module",
                                    "device-ids",
                                    "moved-after-wrapping",
                                    "optimizer-before",
                                    "device-not-passed",
                                    "overwritten-too-early",
                                    "freed-too-early",
                                    "never-waited",
                                    "not-capturable",
                                    "graph-input-gone",
                                    "frozen-in-graph",
                                    "out-of-memory",
                                    "memory-grows",
                                    "graph-output-kept",
                                    "differs-by-rank",
                                    "sharding"};

TEST(Codes, AreNumberedInOrder) {
  int number = 0;
  for (const CodeInfo& code : all_codes()) {
    char expected[16];
    std::snprintf(expected, sizeof expected, "LOC%03d", ++number);
    EXPECT_EQ(code.code, expected);
    EXPECT_EQ(&info(code.id), &code);
    EXPECT_EQ(find_code(code.code), &code);
    EXPECT_EQ(find_reason(code.reason), &code);
  }
}

TEST(Codes, CoverEveryReasonOnce) {
  std::set<std::string> reasons;
  for (const CodeInfo& code : all_codes()) EXPECT_TRUE(reasons.insert(std::string(code.reason)).second) << code.reason;
  EXPECT_EQ(reasons, std::set<std::string>(std::begin(kReasons), std::end(kReasons)));
}

TEST(Codes, AreNotFoundWhenUnknown) {
  EXPECT_EQ(find_code("LOC999"), nullptr);
  EXPECT_EQ(find_code(""), nullptr);
  EXPECT_EQ(find_reason("bad-luck"), nullptr);
}

TEST(Codes, HaveTheirWords) {
  for (const CodeInfo& code : all_codes()) {
    SCOPED_TRACE(code.code);
    EXPECT_FALSE(code.title.empty());
    EXPECT_FALSE(code.title.ends_with('.')) << "a title is no sentence";
    EXPECT_TRUE(code.what.ends_with('.'));
    EXPECT_TRUE(code.why.ends_with('.'));
    for (const std::string_view fix : code.fixes) {
      EXPECT_FALSE(fix.empty());
      EXPECT_FALSE(fix.ends_with('.')) << "code follows";
    }
  }
}

TEST(Codes, KnowTheReasonsOfTheFirstOnes) {
  EXPECT_EQ(info(Code::kModelNotMoved).reason, "model-not-moved");
  EXPECT_EQ(info(Code::kPlainAttribute).code, "LOC003");
  EXPECT_EQ(info(Code::kOther).code, "LOC021");
  EXPECT_EQ(info(Code::kReadTooEarly).severity, Severity::kError);
  EXPECT_EQ(info(Code::kSharedCheckpoint).severity, Severity::kWarning);
  EXPECT_EQ(to_string(Severity::kError), "error");
  EXPECT_EQ(to_string(Severity::kWarning), "warning");
}

}  // namespace
}  // namespace locus::engine
