// What a dry run made up, counted by line.
#include "locus/engine/made_up.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "locus/engine/merge.h"
#include "locus/engine/report.h"

namespace locus::engine {
namespace {

TEST(MadeUp, CountsARowAndKeepsTheOrder) {
  MadeUpTable table;
  EXPECT_EQ(table.add({7, MadeUpKind::kValue, 1}), 1);
  EXPECT_EQ(table.add({3, MadeUpKind::kMemory, 1}, 10), 1);
  EXPECT_EQ(table.add({7, MadeUpKind::kValue, 1}), 2);
  EXPECT_EQ(table.add({3, MadeUpKind::kMemory, 1}, 5), 2);
  const auto rows = table.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].first.site, 7u);
  EXPECT_EQ(rows[0].second.count, 2);
  EXPECT_EQ(rows[1].second.most, 10);
}

TEST(MadeUp, IsBounded) {
  MadeUpTable table;
  for (SiteId site = 1; site < 2 * MadeUpTable::kMaxRows; ++site) table.add({site, MadeUpKind::kValue, 1});
  EXPECT_LE(table.rows().size(), MadeUpTable::kMaxRows + 1);
}

Report dry_report(std::int64_t count, std::int64_t bytes) {
  Report report;
  report.program.ops = 3;
  report.dry = DryRun{65536,
                      "half",
                      {{"a.py", 3, "memory", "aten::empty", 1, bytes, "x = …"},
                       {"a.py", 4, "value", "aten::_local_scalar_dense", count, 0, "x.item()"}}};
  return report;
}

TEST(MadeUp, SurvivesJson) {
  const Report report = dry_report(2, 1 << 30);
  Json json = report;
  EXPECT_EQ(json.at("dry").at("made_up").size(), 2u);
  EXPECT_EQ(json.get<Report>().dry, report.dry);
  Json without = Report{};
  EXPECT_TRUE(without.at("dry").is_null());
}

TEST(MadeUp, OfSeveralProcessesIsAddedUp) {
  Report whole;
  merge_into(whole, dry_report(2, 10));
  merge_into(whole, dry_report(5, 30));
  ASSERT_TRUE(whole.dry.has_value());
  EXPECT_EQ(whole.dry->made_up[1].count, 7);
  EXPECT_EQ(whole.dry->made_up[0].bytes, 30);
}

}  // namespace
}  // namespace locus::engine
