// Tests of the sentences about distributed code: of calls that ranks make together, and of what one rank sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "locus/engine/ranks/seen.h"
#include "locus/engine/ranks/words.h"
#include "tests/engine/ranks_folder.h"

namespace locus::engine::ranks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kKinds[] = {
#define LOCUS_TEXT(name, text, reason) text,
    LOCUS_SEEN(LOCUS_TEXT)
#undef LOCUS_TEXT
};

Location line(int number) { return {"/home/me/net.py", number, 0, number, 9, "forward", ""}; }

Facts facts_of(Seen seen) {
  Facts facts;
  facts.seen = seen, facts.use = line(9), facts.op = "backward", facts.subject = "Net", facts.made = line(3);
  facts.names = {"a.weight"}, facts.count = 6, facts.device = "cpu", facts.expected = "cuda:1";
  facts.output = "output[1]", facts.wrapper = "DistributedDataParallel", facts.ranks = {0, 1};
  Operand& operand = facts.operands.emplace_back();
  operand.name = "a.weight", operand.kind = Kind::kParameter, operand.device = "cpu";
  return facts;
}

TEST(RankWords, OfCalls) {
  Call call = collective(1);
  EXPECT_EQ(words(call), "all_reduce() of float32[2, 3]");
  call.name = "broadcast", call.root = 2, call.dtype = "BFloat16", call.shape = {};
  EXPECT_EQ(words(call), "broadcast() of bfloat16[] with root 2");
  call = collective(1, "0", "barrier"), call.dtype = "";
  EXPECT_EQ(words(call), "barrier()");
  call = collective(1, channel("0", 1, 0, 0), "recv"), call.root = 1, call.dtype = "Bool";
  EXPECT_EQ(words(call), "recv() of bool[2, 3] from rank 1");
  EXPECT_EQ(at({}), "an unknown line");
  EXPECT_EQ(at(line(4)), "net.py:4");
}

TEST(RankWords, OfLists) {
  EXPECT_EQ(listed({"a"}), "`a`");
  EXPECT_EQ(listed({"a", "b"}), "`a`, `b`");
  EXPECT_EQ(listed({"a", "b", "c", "d"}, 2), "`a`, `b` and 2 more");
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(rank_list({0, 1, 5}), "ranks 0, 1 and 5");
}

TEST(RankWords, AMismatchIsTheSameOnBothRanks) {
  Call one = collective(4), other = collective(4, "0", "broadcast");
  other.root = 0, other.reduction = "";
  EXPECT_EQ(mismatch(0, one, 1, other), mismatch(1, other, 0, one));
  const Finding finding = mismatch(1, other, 0, one);
  EXPECT_EQ(finding.code, "LOC024");
  EXPECT_EQ(finding.message, "ranks 0 and 1 called collectives that do not fit, as number 4 of their group");
  EXPECT_EQ(finding.why,
            "rank 0: all_reduce() of float32[2, 3] at train.py:12; rank 1: broadcast() of float32[2, 3] with root 0 at "
            "train.py:12: another call");
  EXPECT_THAT(finding.notes, ElementsAre(HasSubstr("same calls in the same order")));
}

TEST(RankWords, SayWhatDiffers) {
  Call one = collective(1), other = collective(1);
  other.elements = 9;
  EXPECT_THAT(mismatch(0, one, 1, other).why, HasSubstr(": another number of elements"));
  EXPECT_THAT(mismatch(0, one, 1, other).notes, ElementsAre(HasSubstr("padding")));
  other.dtype = "Half";
  EXPECT_THAT(mismatch(0, one, 1, other).why, HasSubstr(": another type"));
  other = one, other.reduction = "MAX";
  EXPECT_THAT(mismatch(0, one, 1, other).why, HasSubstr(": another reduction, SUM and MAX"));
  other = one, other.root = 1;
  EXPECT_THAT(mismatch(0, one, 1, other).why, HasSubstr(": another root"));
}

TEST(RankWords, ASendThatWasLeftOutIsNoWrongOrder) {
  Call first = collective(1, channel("0", 1, 0, 0)), second = collective(2, channel("0", 0, 1, 0));
  first.name = second.name = "recv";
  const Finding found = deadlock({{0, first}, {1, second}});
  EXPECT_THAT(found.why, HasSubstr("rank 0 waits for message 1 of rank 1's, and rank 1 already for message 2 of rank "
                                   "0's: a send of rank 1's was left out"));
  EXPECT_EQ(found, deadlock({{1, second}, {0, first}}));
  second.number = 1;
  EXPECT_THAT(deadlock({{0, first}, {1, second}}).why, HasSubstr("each receives before it sends"));
}

TEST(RankWords, ADeadlockIsTheSameFromEachRank) {
  const std::pair<int, Call> a{0, collective(1, "a")}, b{1, collective(2, "b")}, c{2, collective(3, "c")};
  EXPECT_EQ(deadlock({a, b, c}), deadlock({b, c, a}));
  EXPECT_EQ(deadlock({a, b, c}).message,
            "ranks 0, 1 and 2 wait for each other, each in a call that another has not made");
  EXPECT_THAT(deadlock({a, b}).why, HasSubstr("number 1 of one group and number 2 of another"));
  EXPECT_THAT(deadlock({{0, collective(1)}, {1, collective(2)}}).why, HasSubstr("numbers 1 and 2 of one group"));
}

TEST(RankWords, AMissingRankHasItsLastCallAsTheCause) {
  Call last = collective(2);
  last.place.line = 7;
  const Finding finding = missing(collective(3), {2, 0}, 1, "had ended", last);
  EXPECT_EQ(finding.code, "LOC025");
  EXPECT_EQ(finding.why,
            "ranks 0, 2 wait at train.py:12; rank 1 had ended; its last call was number 2, all_reduce() of float32[2, "
            "3] at train.py:7");
  EXPECT_EQ(finding.cause.line, 7);
  EXPECT_EQ(finding.culprit.name, "rank 1");
  EXPECT_EQ(missing(collective(3), {0}, 1, "had ended", std::nullopt).cause.line, 12);
}

Setting setting(std::string text, std::string next = "") {
  Setting made;
  made.orders.push_back({std::move(text), std::move(next), {}});
  return made;
}

Branch branch_at(int line, std::string condition) {
  return {{"/home/me/train.py", line, 0, line, 9, "", ""}, std::move(condition), false};
}

/// The first call stands at line 12, the second at line 20.
Around settings(Setting first, Setting second) {
  return [=](const Call& call) { return call.place.line == 12 ? first : second; };
}

Call at_line_20() {
  Call call = collective(4, "0", "barrier");
  call.place.line = 20;
  return call;
}

TEST(RankWords, SwappedCallsAreSaidToBe) {
  Call other = collective(4);
  other.place.line = 20, other.elements = 9;
  const Finding finding =
      mismatch(0, collective(4), 1, other, settings(setting("f(a)", "f(b)"), setting("f(b)", "f(a)")));
  EXPECT_THAT(finding.why, HasSubstr("the two calls are swapped: rank 0 makes `f(b)` after it"));
  EXPECT_THAT(finding.notes, ElementsAre(HasSubstr("same order")));
  // Other lines, and nothing known of what comes next: no word of padding.
  EXPECT_THAT(mismatch(0, collective(4), 1, other).notes, ElementsAre(HasSubstr("same calls in the same order")));
}

TEST(RankWords, TheBranchAroundACallIsNamed) {
  Setting inside = setting("f(a)");
  inside.branch = branch_at(11, "if rank == 0");
  Finding finding = mismatch(0, collective(4), 1, at_line_20(), settings(inside, setting("g()")));
  EXPECT_THAT(finding.why, HasSubstr("; rank 0's is under the `if rank == 0` at train.py:11"));
  EXPECT_THAT(finding.notes, ElementsAre(HasSubstr("take it out of the `if`")));
  Setting outside = inside;
  outside.in_else = true;
  finding = mismatch(0, collective(4), 1, at_line_20(), settings(inside, outside));
  EXPECT_THAT(finding.why, HasSubstr("; they are on different sides of the `if rank == 0` at train.py:11"));
  EXPECT_THAT(mismatch(0, collective(4), 1, at_line_20(), settings(inside, inside)).why,
              testing::Not(HasSubstr("if rank")));
  // Of a rank that did not come, an `if` is named where the rank decides it.
  EXPECT_THAT(missing(collective(4), {0}, 1, "had ended", std::nullopt, settings(inside, {})).why,
              testing::Not(HasSubstr("if rank")));
  inside.by_rank = true;
  EXPECT_THAT(missing(collective(4), {0}, 1, "had ended", std::nullopt, settings(inside, {})).why,
              HasSubstr("; the call is under the `if rank == 0` at train.py:11"));
}

TEST(RankWords, TheLoopAndTheSamplerAreNamed) {
  Setting inside = setting("f(a)");
  inside.loops = {branch_at(10, "for x in loader")};
  Call call = collective(4), last = collective(3);
  Finding finding = missing(call, {0}, 1, "had ended", last, settings(inside, inside));
  EXPECT_THAT(finding.why, HasSubstr("; rank 0 went further through the `for x in loader` at train.py:10 than rank 1"));
  EXPECT_THAT(finding.notes, ElementsAre(HasSubstr("same number of rounds")));
  call.feed = Feed{3, 3, 3, "SequentialSampler", {}}, last.feed = Feed{2, 2, 2, "SequentialSampler", {}};
  finding = missing(call, {0}, 1, "had ended", last, settings(inside, inside));
  EXPECT_THAT(finding.why, HasSubstr("it is at batch 3 of 3 (3 samples, SequentialSampler), rank 1's last was batch 2 "
                                     "of 2 (2 samples, SequentialSampler)"));
  EXPECT_THAT(finding.notes, ElementsAre(HasSubstr("DistributedSampler")));
}

TEST(RankWords, OfSeveralLoopsTheOneThatTookTheBatchIsNamed) {
  Setting inside = setting("f(a)");
  inside.loops = {branch_at(11, "for p in parameters"), branch_at(10, "for x in loader")};
  Call call = collective(4), last = collective(3);
  const auto why = [&] { return missing(call, {0}, 1, "had ended", last, settings(inside, inside)).why; };
  EXPECT_THAT(why(), HasSubstr("further through the `for p in parameters` at train.py:11, in the `for x in loader` at "
                               "train.py:10 than rank 1"));
  Location taken;
  taken.file = "/home/me/train.py", taken.line = 10;
  call.feed = Feed{3, 3, 3, "Mine", {taken}}, last.feed = Feed{2, 2, 2, "Mine", {taken}};
  EXPECT_THAT(why(),
              HasSubstr("further through the `for x in loader` at train.py:10 than rank 1: it is at batch 3 of 3"));
  call.feed->taken[0].line = last.feed->taken[0].line = 40;  // by another loop: that of a generator
  EXPECT_THAT(why(), testing::Not(HasSubstr("batch")));
}

TEST(RankWords, CallsThatAreSwappedInACaller) {
  Setting first = setting("all_reduce(t)"), second = setting("broadcast(t, 0)");
  first.orders.push_back({"one(a)", "two(b)", line(31)}), second.orders.push_back({"two(b)", "one(a)", line(33)});
  const Finding finding = mismatch(0, collective(4), 1, at_line_20(), settings(first, second));
  EXPECT_THAT(finding.why, HasSubstr("swapped: rank 0 makes `two(b)` after it, at net.py:31, and rank 1 `one(a)`"));
}

TEST(RankWords, TheLoopThatARankHasLeftIsNamedBesideWhatCameAfterIt) {
  Call inside = collective(11), after = collective(11);
  inside.place = line(4), after.place = line(9);
  inside.feed = Feed{6, 6, 21, "SequentialSampler", {}};
  const Around around = [](const Call& call) {
    Setting setting;
    if (call.place.line == 4) setting.loops = {Branch{line(3), "for x in loader", false}};
    return setting;
  };
  const std::string said =
      "; rank 0's is in the `for x in loader` at net.py:3, at batch 6 of 6 (21 samples, SequentialSampler), and rank "
      "1's behind that loop";
  EXPECT_EQ(part(0, inside, 1, after, around).words, said);
  EXPECT_EQ(part(1, after, 0, inside, around).words, said);
  EXPECT_THAT(part(0, inside, 1, after, around).advice, HasSubstr("the same number of batches"));
  after.feed = Feed{5, 5, 20, "SequentialSampler", {}};
  EXPECT_EQ(part(0, inside, 1, after, around).words, said + ": it had batch 5 of 5 (20 samples, SequentialSampler)");
  after.feed->of = 6;  // it has not come to the end
  EXPECT_EQ(part(0, inside, 1, after, around).words, "");
  after.feed.reset(), after.place.line = 2;  // it was made before the loop
  EXPECT_EQ(part(0, inside, 1, after, around).words, "");
}

TEST(RankWords, AFileThatWasReadTooEarly) {
  Finding finding = missing(collective(3), {0}, 1, "had ended with exit status 1", std::nullopt);
  Raised raised{"FileNotFoundError", "No such file: 'a.pt'", "/tmp/a.pt", false, line(9)};
  add_raised(finding, 1, raised);
  EXPECT_THAT(finding.why, HasSubstr("; rank 1 ended with FileNotFoundError at net.py:9: No such file: 'a.pt'"));
  EXPECT_THAT(finding.notes, testing::IsEmpty());
  raised.is_there = true;
  add_raised(finding, 1, raised);
  EXPECT_THAT(finding.why, HasSubstr("it was read before another rank had written it"));
  EXPECT_THAT(finding.notes, ElementsAre(HasSubstr("dist.barrier()")));
  EXPECT_EQ(finding.cause.line, 9);
}

TEST(SeenWords, EveryKindHasItsSentences) {
  std::set<std::string> codes;
  for (std::size_t kind = 0; kind < std::size(kKinds); ++kind) {
    const Finding finding = tell(facts_of(static_cast<Seen>(kind)));
    EXPECT_FALSE(finding.message.empty()) << kKinds[kind];
    EXPECT_FALSE(finding.why.empty()) << kKinds[kind];
    EXPECT_EQ(finding.uses.at(0).at.line, 9);
    EXPECT_EQ(find_code(finding.code)->reason, finding.reason);
    EXPECT_THAT(finding.message + finding.why, testing::Not(HasSubstr("{}")));
    codes.insert(finding.code);
  }
  EXPECT_THAT(codes, ElementsAre("LOC010", "LOC021", "LOC022", "LOC023", "LOC024", "LOC026", "LOC027", "LOC028",
                                 "LOC029", "LOC030", "LOC031", "LOC032", "LOC043", "LOC044"));
}

TEST(SeenWords, OneAndSeveral) {
  Facts facts = facts_of(Seen::kFrozen);
  EXPECT_EQ(tell(facts).message,
            "the gradients of Net were not all reduced: 1 parameter of 6 got none in this backward pass");
  EXPECT_THAT(tell(facts).notes, ElementsAre("freeze it before DistributedDataParallel is made, at net.py:3"));
  facts.names.push_back("a.bias");
  EXPECT_THAT(tell(facts).message, HasSubstr("2 parameters of 6"));
  EXPECT_THAT(tell(facts).why, HasSubstr("which still waits for their gradient"));
}

TEST(SeenWords, AnUnusedPartIsToldByWhatIsKnownOfIt) {
  Facts facts = facts_of(Seen::kUnused);
  EXPECT_EQ(tell(facts).why, "`a.weight` took no part in what forward() returned");
  facts.used = line(5);
  EXPECT_THAT(tell(facts).why, HasSubstr("forward() uses `a.weight` at net.py:5, but"));
  facts.branch = Branch{line(4), "if x", false};
  EXPECT_THAT(tell(facts).why, HasSubstr("returned: it is used only under the `if x` at net.py:4"));
  facts.branch->leaves = true;
  EXPECT_THAT(tell(facts).why, HasSubstr("it is used only after the `if x` at net.py:4 has not left early"));
}

TEST(SeenWords, ATensorWithoutANameHasNoQuotes) {
  Facts facts = facts_of(Seen::kCpuTensor);
  facts.operands[0].name = "";
  EXPECT_EQ(tell(facts).why, "the tensor is on the CPU; NCCL moves the memory of CUDA devices only");
  EXPECT_EQ(tell(facts).culprit.expected_device, "cuda:1");
}

TEST(SeenWords, OfARefusal) {
  Facts facts = facts_of(Seen::kSeveralDevices);
  facts.devices = {"cpu", "cuda:0"};
  EXPECT_EQ(tell(facts).message, "DistributedDataParallel was given Net, which is on cpu and cuda:0");
  EXPECT_EQ(tell(facts).why, "`a.weight` is on cpu, the rest on another device");
  facts = facts_of(Seen::kPinned);
  facts.device = "";
  EXPECT_EQ(tell(facts).message, "pin_memory() got a tensor on a CUDA device; only the host's memory can be pinned");
  EXPECT_THAT(tell(facts).notes, ElementsAre("leave pin_memory() out"));
  facts.wrapper = "DataLoader";
  EXPECT_THAT(tell(facts).notes, ElementsAre(HasSubstr("pin_memory=False")));
  facts = facts_of(Seen::kSavedElsewhere);
  facts.subject = "net.pt", facts.device = "cuda:3", facts.count = 0;
  EXPECT_EQ(tell(facts).message, "net.pt was saved on cuda:3, which this machine has not");
  EXPECT_THAT(tell(facts).why, HasSubstr("; here there is no CUDA device"));
  facts.count = 1;
  EXPECT_THAT(tell(facts).why, HasSubstr("; here is cuda:0 only"));
  facts.count = 2;
  EXPECT_THAT(tell(facts).why, HasSubstr("; here are 2 CUDA devices"));
}

TEST(SeenWords, ASecondBackwardIsAWarning) {
  EXPECT_EQ(tell(facts_of(Seen::kSecondBackward)).severity, Severity::kWarning);
  EXPECT_EQ(tell(facts_of(Seen::kTwice)).severity, Severity::kError);
}

TEST(SeenFacts, AreReadAsPythonWritesThem) {
  const Facts facts = parse_facts(R"({"seen": "unused", "use": {"file": "a.py", "line": 3}, "cause": null,
    "op": "backward", "names": ["w"], "count": 2,
    "branch": {"at": {"file": "a.py", "line": 2}, "condition": "if y", "leaves": true},
    "made": null, "used": null, "operands": [{"name": "w"}], "fixes": [{"file": "a.py", "line": 1}], "step": 4})");
  EXPECT_EQ(facts.seen, Seen::kUnused);
  EXPECT_EQ(facts.use.line, 3);
  EXPECT_TRUE(facts.branch && facts.branch->leaves);
  EXPECT_FALSE(facts.used || facts.cause);
  EXPECT_EQ(tell(facts).cause.line, 3);
  EXPECT_EQ(tell(facts).first_step, 4);
  EXPECT_THROW(parse_facts(R"({"seen": "nothing of the kind"})"), FormatError);
  EXPECT_THROW(parse_facts(R"({"seen": "unused", "names": 3})"), FormatError);
}

TEST(SeenFacts, EveryNameIsReadBackAsItsKind) {
  for (std::size_t kind = 0; kind < std::size(kKinds); ++kind)
    EXPECT_EQ(parse_facts("{\"seen\": \"" + std::string(kKinds[kind]) + "\"}").seen, static_cast<Seen>(kind));
}

}  // namespace
}  // namespace locus::engine::ranks
