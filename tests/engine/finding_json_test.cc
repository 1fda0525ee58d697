// Tests of the findings' JSON: what is missing is forgiven, what is wrong is named, what is written can be read.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "locus/engine/report.h"
#include "locus/engine/utf8.h"

namespace locus::engine {
namespace {

template <class T>
T read(std::string_view text) {
  T value;
  from_json(parse_json(text), value);
  return value;
}

template <class T>
std::string error_of(std::string_view text) {
  try {
    read<T>(text);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

TEST(FindingJson, ForgivesWhatIsMissing) {
  EXPECT_EQ(read<Location>("{}"), Location());
  EXPECT_EQ(read<Operand>("{}"), Operand());
  EXPECT_EQ(read<Finding>("{}"), Finding());
  EXPECT_EQ(read<Report>("{}"), Report());
  EXPECT_EQ(read<Location>(R"({"file": null, "line": null, "column": null, "new_field": [1]})"), Location());
}

TEST(FindingJson, ReadsAnOperandOfACase) {
  const auto operand = read<Operand>(R"({
    "argument": "other", "position": 1, "expression": null, "name": "model.cache", "kind": "plain-attribute",
    "device": "cpu", "shape": [10, 3], "dtype": "float32", "odd": true, "rule": "same", "is_leaf": false,
    "owner": {"name": "model", "class": "Net", "moved_at": {"file": "t.py", "line": 56}, "container": null},
    "history": [{"action": "created", "op": "randn", "device": "cpu", "explicit": true, "at": {"line": 12}}],
    "candidates": [{"edit": "register_buffer", "facts": ["sibling_is_moved"],
                    "fix": {"file": "t.py", "line": 12, "old": "a", "new": "b"}}]})");
  EXPECT_EQ(operand.argument, "other");
  EXPECT_EQ(operand.position, 1);
  EXPECT_EQ(operand.expression, "");
  EXPECT_EQ(operand.shape, (std::vector<std::int64_t>{10, 3}));
  EXPECT_TRUE(operand.odd);
  EXPECT_FALSE(operand.is_leaf);
  EXPECT_EQ(operand.owner->class_name, "Net");
  EXPECT_EQ(operand.owner->moved_at->line, 56);
  ASSERT_EQ(operand.history.size(), 1u);
  EXPECT_TRUE(operand.history[0].is_explicit);
  EXPECT_EQ(operand.history[0].at.line, 12);
  ASSERT_EQ(operand.candidates.size(), 1u);
  EXPECT_EQ(operand.candidates[0].edit, EditKind::kRegisterBuffer);
  EXPECT_EQ(operand.candidates[0].fix->new_text, "b");
  EXPECT_EQ(operand.candidates[0].facts, std::vector{Fact::kSiblingIsMoved});
}

TEST(FindingJson, TakesCodeAndSeverityFromTheReason) {
  EXPECT_EQ(read<Finding>(R"({"reason": "plain-attribute"})").code, "LOC003");
  EXPECT_EQ(read<Finding>(R"({"reason": "shared-checkpoint"})").severity, Severity::kWarning);
  EXPECT_EQ(read<Finding>(R"({"code": "LOC014"})").reason, "index");
  EXPECT_EQ(read<Finding>(R"({"code": "LOC014", "severity": "warning"})").severity, Severity::kWarning);
  EXPECT_EQ(read<Finding>(R"({"code": "X1", "reason": "mine"})").code, "X1");
}

TEST(FindingJson, NamesWhatIsWrongAndWhere) {
  EXPECT_EQ(error_of<Report>(R"({"findings": [{}, {"uses": [{"line": "x"}]}]})"),
            "findings[1].uses[0].line: expected a number, got string");
  EXPECT_EQ(error_of<Report>(R"({"findings": {}})"), "findings: expected a list, got object");
  EXPECT_EQ(error_of<Report>("[]"), "expected a report, got array");
  EXPECT_EQ(error_of<Report>(R"({"memory": {"cuda:0": {"by_line": [3]}}})"),
            "memory.cuda:0.by_line[0]: expected a line's memory, got number");
  EXPECT_EQ(error_of<Report>(R"({"memory": 3})"), "memory: expected an object of devices, got number");
  EXPECT_EQ(error_of<Report>(R"({"version": 3})"), "version: expected 1 to 2, got 3; this report is of another Locus");
  EXPECT_EQ(error_of<Finding>(R"({"severity": "fatal"})"), "severity: expected error or warning, got fatal");
  EXPECT_EQ(error_of<Finding>(R"({"in_backward": 1})"), "in_backward: expected true or false, got number");
  EXPECT_EQ(error_of<Operand>(R"({"candidates": [{"fix": {"line": []}}]})"),
            "candidates[0].fix.line: expected a number, got array");
  EXPECT_EQ(error_of<Report>("{\"findings\": [\n  oops]}"), "it is no JSON (line 2, column 3)");
  EXPECT_EQ(error_of<Report>(""), "it is no JSON (line 1, column 1)");
}

TEST(FindingJson, BringsNumbersIntoRange) {
  EXPECT_EQ(read<Location>(R"({"line": 99999999999999999999})").line, std::numeric_limits<int>::max());
  EXPECT_EQ(read<Location>(R"({"line": -99999999999})").line, std::numeric_limits<int>::min());
  EXPECT_EQ(read<Location>(R"({"line": 18446744073709551615})").line, std::numeric_limits<int>::max());
  EXPECT_EQ(read<Location>(R"({"line": 3.7})").line, 3);
  EXPECT_EQ(read<Transfer>(R"({"bytes": 1e300})").bytes, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(read<Transfer>(R"({"bytes": -1e300})").bytes, std::numeric_limits<std::int64_t>::min());
}

TEST(FindingJson, ReadsAProgramsEndAndDevices) {
  EXPECT_EQ(read<Program>(R"({"exit": "usage: ..."})").exit, 1);
  EXPECT_EQ(read<Program>(R"({"exit": 3})").exit, 3);
  EXPECT_EQ(read<Program>(R"({"exit": null})").exit, 0);
  EXPECT_EQ(read<Program>(R"({"devices": 2})").devices, (std::vector<std::string>{"cuda:0", "cuda:1"}));
  EXPECT_EQ(read<Program>(R"({"devices": ["cuda:0"]})").devices, (std::vector<std::string>{"cuda:0"}));
}

TEST(FindingJson, ReadsWhatPythonWrites) {
  EXPECT_EQ(read<Location>(R"({"file": "caf\udce9.py"})").file, "caf\uFFFD.py");
  EXPECT_EQ(read<Location>(R"({"file": "\ud83d\ude00"})").file, "\U0001F600");
  EXPECT_EQ(read<Location>(R"({"file": "\ud83dx"})").file, "\uFFFDx");
  EXPECT_EQ(read<Location>(R"({"file": "\\udce9"})").file, "\\udce9");  // a backslash, not an escape
  EXPECT_EQ(read<Location>("{\"file\": \"caf\xe9.py\"}").file, "caf\uFFFD.py");
}

TEST(FindingJson, LeavesAnOperandsCandidatesOutOfWhatItWrites) {
  Operand operand;
  operand.candidates.emplace_back();
  EXPECT_FALSE(Json(operand).contains("candidates"));
}

TEST(FindingJson, RefusesWordsThatAreInNoList) {
  EXPECT_THROW(read<Step>(R"({"action": "teleported"})"), FormatError);
  EXPECT_THROW(read<Operand>(R"({"kind": "odd"})"), FormatError);
  EXPECT_THROW(read<Finding>(R"({"candidates": [{"facts": ["because"]}]})"), FormatError);
}

TEST(FindingJson, WritesUnknownColumnsAsNull) {
  const Json json = Location();
  EXPECT_TRUE(json["column"].is_null());
  EXPECT_TRUE(json["end_column"].is_null());
  EXPECT_EQ(json["line"], 0);
}

TEST(Utf8, RoundTripsEveryKindOfCharacter) {
  for (const char32_t c : {U'a', U'\x7f', U'\x80', U'\x7ff', U'\x800', U'\xffff', U'\U00010000', U'\U0010ffff'}) {
    std::string text;
    append_utf8(text, c);
    std::size_t at = 0;
    EXPECT_EQ(next_character(text, at), c);
    EXPECT_EQ(at, text.size());
  }
}

TEST(Utf8, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(valid_utf8("a\xff"
                       "b"),
            "a\uFFFDb");
  EXPECT_EQ(valid_utf8("\xc3"), "\uFFFD");            // cut off
  EXPECT_EQ(valid_utf8("\xc0\x80"), "\uFFFD\uFFFD");  // overlong
  EXPECT_EQ(valid_utf8("\xe0\x80\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(valid_utf8("\xf5\x80\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(valid_utf8("\xe2\x82"), "\uFFFD\uFFFD");
  EXPECT_EQ(valid_utf8("é€😀"), "é€😀");
}

}  // namespace
}  // namespace locus::engine
