// The trace: what the viewers ask of each kind of event, and that names and files can't break it.
#include "locus/report/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "locus/engine/finding.h"

namespace locus::report {
namespace {

using Kind = TraceEvent::Kind;

std::vector<TraceEvent> some() {
  return {{.kind = Kind::kOperator,
           .name = "aten::add.Tensor",
           .device = 1,
           .stream = 7,
           .begin = 1500,
           .duration = 2500,
           .bytes = 0,
           .way = "",
           .file = "/a/train.py",
           .line = 3},
          {.kind = Kind::kTransfer,
           .name = "",
           .device = 0,
           .stream = 0,
           .begin = 5000,
           .duration = 0,
           .bytes = 1024,
           .way = "cpu → cuda:0",
           .file = "",
           .line = 0},
          {.kind = Kind::kWait,
           .name = "aten::_local_scalar_dense",
           .device = -1,
           .stream = 0,
           .begin = 6000,
           .duration = 10,
           .bytes = 0,
           .way = "",
           .file = "\"<\xff",
           .line = 1},
          {.kind = Kind::kMemory,
           .name = "",
           .device = 0,
           .stream = 0,
           .begin = 7000,
           .duration = 0,
           .bytes = 4096,
           .way = "",
           .file = "",
           .line = 0},
          {.kind = Kind::kFinding,
           .name = "LOC004",
           .device = 1,
           .stream = 9,
           .begin = 8000,
           .duration = 0,
           .bytes = 0,
           .way = "",
           .file = "/a/train.py",
           .line = 3}};
}

TEST(Trace, EveryEventHasWhatViewersAskFor) {
  const engine::Json events = engine::parse_json(render_trace_events(some(), 2, "rank 2"));
  std::set<std::string> phases;
  for (const auto& event : events) {
    phases.insert(event.at("ph").get<std::string>());
    EXPECT_EQ(event.at("pid"), 2);
    EXPECT_FALSE(event.at("name").get<std::string>().empty());
    if (event.at("ph") != "M") EXPECT_TRUE(event.at("ts").is_number());
    if (event.at("ph") == "X") EXPECT_GE(event.at("dur").get<double>(), 0);
    if (event.at("ph") == "i") EXPECT_EQ(event.at("s"), "p");
    if (event.at("ph") == "C") EXPECT_TRUE(event.at("args").at("bytes").is_number());
  }
  EXPECT_EQ(phases, (std::set<std::string>{"M", "X", "C", "i"}));
}

TEST(Trace, SaysWhatHappenedWhere) {
  const engine::Json events = engine::parse_json(render_trace_events(some(), 0, "train.py"));
  EXPECT_EQ(events[0].at("args").at("name"), "train.py");
  EXPECT_EQ(events[1].at("name"), "add");
  EXPECT_EQ(events[1].at("ts"), 1.5);
  EXPECT_EQ(events[1].at("dur"), 2.5);
  EXPECT_EQ(events[1].at("args").at("line"), "/a/train.py:3");
  EXPECT_EQ(events[2].at("name"), "copy cpu → cuda:0");
  EXPECT_EQ(events[2].at("args").at("bytes"), 1024);
  EXPECT_EQ(events[3].at("name"), "wait: .item()");
  EXPECT_EQ(events[3].at("tid"), 0);
  EXPECT_NE(events[1].at("tid"), events[5].at("tid")) << "another stream, another lane";
  std::set<std::string> lanes;
  for (const auto& event : events) {
    if (event.at("name") == "thread_name") lanes.insert(event.at("args").at("name").get<std::string>());
  }
  EXPECT_EQ(lanes, (std::set<std::string>{"host", "cuda:0", "cuda:1", "cuda:1 stream 1"}));
}

}  // namespace
}  // namespace locus::report
