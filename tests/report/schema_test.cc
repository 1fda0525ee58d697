// docs/report.schema.json says what render_json() writes: neither more nor less.
#include <gtest/gtest.h>

#include "locus/report/json.h"
#include "tests/report/schema_validator.h"

namespace locus::report {
namespace {

Json schema() { return engine::parse_json(read(kRoot / "docs/report.schema.json")); }

/// With every field filled, so that every part of the schema is used.
engine::Report full_report() {
  engine::Report report;
  engine::Location at{"train.py", 41, 15, 41, 29, "f", "return a + b"};
  engine::Finding& finding = report.findings.emplace_back();
  finding.code = "LOC003";
  finding.reason = "plain-attribute";
  finding.cause = at;
  finding.uses.push_back({at, "add", 1, 0, at, at});
  finding.history.push_back({engine::Action::kCreated, "randn", "cpu", false, at});
  finding.forward = at;
  finding.fixes.emplace_back().file = "train.py";
  finding.notes.emplace_back("note");
  engine::Candidate& candidate = finding.candidates.emplace_back();
  candidate.at = at;
  candidate.fix = finding.fixes.front();
  candidate.facts = {engine::Fact::kSiblingIsMoved};
  engine::Operand& operand = finding.operands.emplace_back();
  operand.shape = {1, 2};
  operand.position = 1;
  operand.expression = "x";
  operand.history = finding.history;
  operand.owner = engine::Owner{"model", "Net", "", "cache", "cuda:0", at, "cuda:0", "list"};
  report.transfers.push_back({"train.py", 1, "cpu", "cuda:0", 1, 4, ""});
  report.syncs.push_back({"train.py", 1, "item()", 1});
  report.memory.push_back({"cuda:0", 4, {{"train.py", 1, 4, 1}}, 1024, {2, {0, 0}, {4, 4}, {0, 1}}});
  report.models.push_back({"model", "Net", {{0, "model", "Net", "module", "", {}, "", 0, true}}, 3});
  report.program.argv = {"a"};
  report.program.devices = {"cuda:0"};
  report.notes = {"note"};
  report.ignored = {{"b2", "LOC020", "train.py", 12, "a comment at train.py:12: read later"}};
  report.not_run = {{"train.py", "evaluate", 80}, {"model/beam.py", "", 0}};
  report.baseline = engine::Comparison{.file = "before.json",
                                       .new_ids = {"a1"},
                                       .gone = {{"c3", "LOC004", "train.py", 7, ""}},
                                       .known = 2,
                                       .more = {{"transfer", "train.py", 30, "cpu → cuda:0", 0, 12}}};
  return report;
}

TEST(Schema, AcceptsWhatIsWritten) {
  const Validator validator(schema());
  EXPECT_EQ(validator.check(engine::parse_json(render_json({}))), "");
  EXPECT_EQ(validator.check(engine::parse_json(render_json(full_report()))), "");
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "tests/report/golden")) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_EQ(validator.check(engine::parse_json(render_json(parse_report(read(entry.path()))))), "") << entry.path();
  }
}

TEST(Schema, RefusesWhatIsNot) {
  const Validator validator(schema());
  Json json = engine::parse_json(render_json(full_report()));
  json["surprise"] = 1;
  EXPECT_EQ(validator.check(json), "$: surprise is not in the schema");
  json.erase("surprise");
  json["findings"][0]["uses"][0]["line"] = "41";
  EXPECT_NE(validator.check(json), "");
  json = engine::parse_json(render_json(full_report()));
  json["findings"][0].erase("why");
  EXPECT_EQ(validator.check(json), "$.findings[0]: no \"why\"");
}

TEST(Schema, RequiresEveryField) {
  const Json all = schema();
  std::vector<const Json*> objects = {&all};
  for (const auto& [name, definition] : all.at("$defs").items()) objects.push_back(&definition);
  for (const Json* object : objects) {
    if (!object->contains("properties")) continue;
    Json keys = Json::array();
    for (const auto& [key, property] : object->at("properties").items()) {
      // A field that is not always there says so.
      if (property.value("description", "").find("absent:") == std::string::npos) keys.push_back(key);
    }
    EXPECT_EQ(object->at("required"), keys) << *object;
  }
}

TEST(Schema, KnowsEveryCodeAndReason) {
  const Json finding = schema().at("$defs").at("finding").at("properties");
  Json reasons = Json::array();
  for (const engine::CodeInfo& code : engine::all_codes()) reasons.push_back(code.reason);
  EXPECT_EQ(finding.at("reason").at("enum"), reasons);
}

TEST(Json, HasItsKeysInOneOrder) {
  const std::string json = render_json(full_report());
  std::size_t last = 0;
  for (const char* key : {"version", "findings", "transfers", "syncs", "memory", "program"}) {
    const std::size_t at = json.find(std::string("\n  \"") + key + "\"");
    ASSERT_NE(at, std::string::npos) << key;
    EXPECT_GT(at, last);
    last = at;
  }
  EXPECT_EQ(parse_report(json), full_report());
}

TEST(Json, AFileThatIsNoReportIsRefused) {
  const std::string whole = render_json(full_report());
  EXPECT_EQ(read_report(whole), full_report());
  for (const char* text : {"{}", "[]", "null", "3", R"({"findings": [{}]})", R"({"version": 1, "findings": []})",
                           R"({"version": 1, "findings": [], "program": {}})"}) {
    EXPECT_THROW(read_report(text), engine::FormatError) << text;
  }
  for (const char* key : {"code", "message", "cause", "uses"}) {
    Json json = engine::parse_json(whole);
    json["findings"][0].erase(key);
    EXPECT_THROW(read_report(json.dump()), engine::FormatError) << key;
  }
}

TEST(Json, AReportOfOldIsRead) {
  Json json = engine::parse_json(render_json(full_report()));
  json.erase("verdict");
  for (const char* key : {"ended_by", "on_device", "incomplete", "allow_empty", "all_seen"}) json["program"].erase(key);
  EXPECT_EQ(read_report(json.dump()), full_report());
}

}  // namespace
}  // namespace locus::report
