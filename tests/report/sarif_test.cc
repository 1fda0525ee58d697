// SARIF: word for word for some reports, as the standard's schema wants it for any, and true: paths, regions, edits.
// LOCUS_UPDATE_GOLDEN=1 writes the golden files anew.
#include "locus/report/sarif.h"

#include <gtest/gtest.h>

#include "locus/report/json.h"
#include "tests/report/random_report.h"
#include "tests/report/schema_validator.h"

namespace locus::report {
namespace {

const SarifOptions kOptions{.directory = "/home/me/work", .root = "/home/me/work"};

Json schema() { return engine::parse_json(read(kRoot / "tests/report/sarif_written.schema.json")); }

Json render(const engine::Report& report, const SarifOptions& options = kOptions) {
  return engine::parse_json(render_sarif(report, options));
}

engine::Report golden_report(const std::string& name) {
  return parse_report(read(kRoot / "tests/report/golden" / (name + ".json")));
}

Json only_result(const engine::Report& report, const SarifOptions& options = kOptions) {
  return render(report, options).at("runs").at(0).at("results").at(0);
}

TEST(Sarif, IsWordForWord) {
  for (const char* name : {"LOC003", "LOC005", "LOC019", "nothing", "page"}) {
    SCOPED_TRACE(name);
    engine::Report report = golden_report(name);
    report.program.locus = "1.2.3";
    Json json = render(report);
    json["runs"][0]["tool"]["driver"].erase("rules");  // made from codes.def, tested below
    const std::string text = json.dump(1) + "\n";
    const auto golden = kRoot / "tests/report/golden/sarif" / (std::string(name) + ".sarif");
    if (std::getenv("LOCUS_UPDATE_GOLDEN") != nullptr) std::ofstream(golden, std::ios::binary) << text;
    EXPECT_EQ(text, read(golden));
  }
}

TEST(Sarif, IsWhatTheStandardAllows) {
  const Validator validator(schema());
  EXPECT_EQ(validator.check(render({})), "");
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "tests/report/golden")) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_EQ(validator.check(render(parse_report(read(entry.path())))), "") << entry.path();
  }
  for (int seed = 0; seed < rounds() / 20; ++seed) {
    Source source(static_cast<unsigned>(seed));
    ASSERT_EQ(validator.check(render(source.report())), "") << seed;
  }
}

TEST(Sarif, TheSchemaRefusesWhatIsWrong) {
  const Validator validator(schema());
  Json json = render(golden_report("LOC003"));
  json["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0;
  EXPECT_NE(validator.check(json), "");
  json = render(golden_report("LOC003"));
  json["runs"][0]["results"][0].erase("message");
  EXPECT_NE(validator.check(json), "");
  json = render(golden_report("LOC003"));
  json["runs"][0]["results"][0]["level"] = "fatal";
  EXPECT_NE(validator.check(json), "");
}

TEST(Sarif, HasOneRuleForEachCode) {
  const Json rules = render({}).at("runs").at(0).at("tool").at("driver").at("rules");
  ASSERT_EQ(rules.size(), engine::all_codes().size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const engine::CodeInfo& code = engine::all_codes()[i];
    EXPECT_EQ(rules[i].at("id"), code.code);
    EXPECT_EQ(rules[i].at("shortDescription").at("text"), code.title);
    EXPECT_EQ(rules[i].at("defaultConfiguration").at("level"), to_string(code.severity));
    for (const auto fix : code.fixes) {
      EXPECT_NE(rules[i].at("help").at("markdown").get<std::string>().find(fix), std::string::npos);
    }
    const engine::Report report = golden_report(std::string(code.code));
    EXPECT_EQ(only_result(report).at("ruleIndex"), i);
  }
}

std::string uri_of(const std::string& file, const SarifOptions& options) {
  engine::Report report;
  report.findings.emplace_back().cause = {file, 3, -1, 0, -1, "", ""};
  const Json artifact =
      only_result(report, options).at("locations").at(0).at("physicalLocation").at("artifactLocation");
  return artifact.value("uriBaseId", "") + "|" + artifact.at("uri").get<std::string>();
}

TEST(Sarif, PathsAreRelativeToTheRoot) {
  const SarifOptions inside{.directory = "/repo/sub", .root = "/repo"};
  EXPECT_EQ(uri_of("/repo/sub/train.py", inside), "SRCROOT|sub/train.py");
  EXPECT_EQ(uri_of("train.py", inside), "SRCROOT|sub/train.py");
  EXPECT_EQ(uri_of("../a.py", inside), "SRCROOT|a.py");
  EXPECT_EQ(uri_of("/repository/a.py", inside), "|file:///repository/a.py");
  EXPECT_EQ(uri_of("/usr/lib/x.py", inside), "|file:///usr/lib/x.py");
  EXPECT_EQ(uri_of("/repo/a b#?%\"<é>.py", inside), "SRCROOT|a%20b%23%3F%25%22%3C%C3%A9%3E.py");
  EXPECT_EQ(uri_of("/repo/c:d.py", {.directory = "/repo/", .root = "/repo/"}), "SRCROOT|c%3Ad.py");
  EXPECT_EQ(uri_of("/a.py", {.directory = "/", .root = "/"}), "SRCROOT|a.py");
  const Json run = render({}, {.directory = "/re po", .root = ""}).at("runs").at(0);
  EXPECT_EQ(run.at("originalUriBaseIds").at("SRCROOT").at("uri"), "file:///re%20po/");
}

TEST(Sarif, CodeThatIsInNoFileHasNoPlace) {
  engine::Report report;
  report.findings.emplace_back().cause = {"<string>", 3, 0, 3, 4, "f", "x"};
  EXPECT_TRUE(only_result(report).at("locations").empty());
}

TEST(Sarif, FingerprintsOutliveMovedLines) {
  engine::Report before = golden_report("LOC003"), after = before;
  for (auto* report : {&before, &after}) report->findings[0].id.clear();
  after.findings[0].cause.line += 40;
  for (engine::Use& use : after.findings[0].uses) use.at.line += 40;
  EXPECT_EQ(only_result(before).at("partialFingerprints"), only_result(after).at("partialFingerprints"));
  after.findings[0].culprit.name = "self.other";
  EXPECT_NE(only_result(before).at("partialFingerprints"), only_result(after).at("partialFingerprints"));
}

/// The text after the one replacement of a fix was made, as an editor makes it.
std::string edited(const std::string& text, const engine::Fix& fix) {
  engine::Report report;
  report.findings.emplace_back().fixes = {fix};
  const Json change = only_result(report).at("fixes").at(0).at("artifactChanges").at(0).at("replacements").at(0);
  const auto offset = [&](const char* line, const char* column) {
    std::size_t at = 0;
    for (int n = change.at("deletedRegion").at(line).get<int>(); n > 1; --n) at = text.find('\n', at) + 1;
    return at + change.at("deletedRegion").at(column).get<std::size_t>() - 1;
  };
  const std::size_t begin = offset("startLine", "startColumn"), end = offset("endLine", "endColumn");
  return text.substr(0, begin) + change.at("insertedContent").at("text").get<std::string>() + text.substr(end);
}

TEST(Sarif, EditsGiveTheMendedText) {
  const std::string text = "one\n  two\n  three\nfour\n";
  const auto fix = [](int line, const char* old, const char* fresh) {
    return engine::Fix{"a.py", line, old, fresh, false, ""};
  };
  EXPECT_EQ(edited(text, fix(2, "  two", "  2")), "one\n  2\n  three\nfour\n");
  EXPECT_EQ(edited(text, fix(2, "  two\n", "  2\n")), "one\n  2\n  three\nfour\n");
  EXPECT_EQ(edited(text, fix(2, "  two\n  three", "  2\n  3\n  3b")), "one\n  2\n  3\n  3b\nfour\n");
  EXPECT_EQ(edited(text, fix(3, "", "  new")), "one\n  two\n  three\n  new\nfour\n");
}

TEST(Sarif, SaysNothingOfTheProgramsArguments) {
  engine::Report report = golden_report("LOC003");
  report.program.argv = {"--token", "s3cret"};
  EXPECT_EQ(render_sarif(report, kOptions).find("s3cret"), std::string::npos);
}

engine::Report compared_report() {
  engine::Report report = golden_report("page");
  for (std::size_t i = 0; i < report.findings.size(); ++i) report.findings[i].id = "id" + std::to_string(i);
  report.ignored = {
      {"a", "LOC004", "/home/me/work/a.py", 7, "a comment at a.py:7: on purpose", "comment", "add() got <two>"},
      {"b", "LOC027", "/home/me/work/b.py", 8, "/home/me/work/pyproject.toml", "settings", ""}};
  report.not_run = {{"/home/me/work/net.py", "Net.<sample>", 30}, {"/home/me/work/other.py", "", 0}};
  engine::Comparison& since = report.baseline.emplace();
  since.file = "old<er>.json";
  since.new_ids = {"id0"};
  since.known = static_cast<std::int64_t>(report.findings.size()) - 1;
  since.gone = {{"c", "LOC003", "/home/me/work/c.py", 9, "", "", "mul() got cuda:0 and cpu"}};
  since.more = {{"transfer", "/home/me/work/d.py", 5, "cpu → cuda:0", 3, 12}};
  return report;
}

TEST(Sarif, SaysWhatIsNewWhatIsGoneAndWhatIsSuppressed) {
  const Json run = render(compared_report()).at("runs").at(0);
  EXPECT_EQ(Validator(schema()).check(render(compared_report())), "");
  const Json& results = run.at("results");
  const std::size_t findings = compared_report().findings.size();
  ASSERT_EQ(results.size(), findings + 3);
  for (std::size_t i = 0; i < findings; ++i) {
    EXPECT_EQ(results[i].at("baselineState"), i == 0 ? "new" : "unchanged");
    EXPECT_FALSE(results[i].contains("suppressions"));
  }
  const Json& by_comment = results[findings];
  EXPECT_EQ(by_comment.at("ruleId"), "LOC004");
  EXPECT_EQ(by_comment.at("suppressions")[0].at("kind"), "inSource");
  EXPECT_EQ(by_comment.at("suppressions")[0].at("justification"), "a comment at a.py:7: on purpose");
  EXPECT_EQ(by_comment.at("message").at("text"), "add() got <two>");
  EXPECT_EQ(by_comment.at("partialFingerprints").at("locusFinding/v1"), "a");
  const Json& by_settings = results[findings + 1];
  EXPECT_EQ(by_settings.at("suppressions")[0].at("kind"), "external");
  EXPECT_EQ(by_settings.at("level"), "warning");
  EXPECT_NE(by_settings.at("message").at("text"), "");
  const Json& gone = results[findings + 2];
  EXPECT_EQ(gone.at("baselineState"), "absent");
  EXPECT_EQ(gone.at("locations")[0].at("physicalLocation").at("region").at("startLine"), 9);
  const Json& notices = run.at("invocations")[0].at("toolExecutionNotifications");
  EXPECT_EQ(notices[0].at("level"), "warning");
  EXPECT_EQ(notices[0].at("message").at("text"), "transfer cpu → cuda:0: 12 times, was 3 times in old<er>.json");
}

TEST(Sarif, StatesAreLeftOutWhereNothingWasCompared) {
  const Json result = only_result(golden_report("LOC003"));
  EXPECT_FALSE(result.contains("baselineState"));
  EXPECT_FALSE(result.contains("suppressions"));
}

}  // namespace
}  // namespace locus::report
