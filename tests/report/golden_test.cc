// Every message word for word: each golden/NAME.json is a report, with the options under "test", and NAME.txt the
// text it must give. LOCUS_UPDATE_GOLDEN=1 writes the texts anew; read the difference before you commit it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "locus/report/json.h"
#include "locus/report/screen.h"
#include "locus/report/text.h"

namespace locus::report {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(LOCUS_SOURCE_ROOT) / "tests/report/golden";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TextOptions options_of(const std::string& json) {
  const auto test = engine::parse_json(json).value("test", engine::Json::object());
  return {.width = test.value("width", 80),
          .color = test.value("color", false),
          .ledger = test.value("ledger", false),
          .directory = "/home/me/work"};
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, Text) {
  const std::string json = read(kFolder / (GetParam() + ".json"));
  const TextOptions options = options_of(json);
  const std::string text = render_text(parse_report(json), options);
  const fs::path golden = kFolder / (GetParam() + ".txt");
  if (std::getenv("LOCUS_UPDATE_GOLDEN") != nullptr) std::ofstream(golden, std::ios::binary) << text;
  EXPECT_EQ(text, read(golden));

  if (options.width == 0 || options.color) return;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(width_of(text.substr(at, end - at)), options.width) << text.substr(at, end - at);
    EXPECT_FALSE(end > at && text[end - 1] == ' ') << "blanks at the end: " << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST_P(Golden, JsonRoundTrip) {
  const engine::Report report = parse_report(read(kFolder / (GetParam() + ".json")));
  const std::string json = render_json(report);
  EXPECT_EQ(parse_report(json), report);
  EXPECT_EQ(render_json(parse_report(json)), json);
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, testing::ValuesIn(names()), [](const auto& info) { return info.param; });

TEST(GoldenFiles, ThereIsOneForEveryCode) {
  const std::vector<std::string> all = names();
  const std::set<std::string> present(all.begin(), all.end());
  for (const engine::CodeInfo& code : engine::all_codes()) {
    EXPECT_TRUE(present.contains(std::string(code.code))) << code.code;
    const engine::Report report = parse_report(read(kFolder / (std::string(code.code) + ".json")));
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_EQ(report.findings[0].code, code.code);
  }
}

}  // namespace
}  // namespace locus::report
