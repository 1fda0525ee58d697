// Tests of characters, columns, wrapping, numbers and paths, and of the carets under a source line.
#include "locus/report/screen.h"

#include <gtest/gtest.h>

#include <limits>

#include "locus/report/phrase.h"
#include "locus/report/snippet.h"

namespace locus::report {
namespace {

TEST(Screen, KnowsHowWideCharactersAre) {
  EXPECT_EQ(character_width(U'a'), 1);
  EXPECT_EQ(character_width(U'é'), 1);
  EXPECT_EQ(character_width(U'語'), 2);
  EXPECT_EQ(character_width(U'한'), 2);
  EXPECT_EQ(character_width(U'😀'), 2);
  EXPECT_EQ(character_width(U'\u0301'), 0);
  EXPECT_EQ(character_width(U'…'), 1);
  EXPECT_EQ(width_of("a語\u0301"), 3);
}

TEST(Screen, LetsNoControlCharacterThrough) {
  EXPECT_EQ(clean("a\x1b[31mb"), "a␛[31mb");
  EXPECT_EQ(clean("a\nb\tc\r\n"), "a b c");
  EXPECT_EQ(clean("\x7f"), "␡");
  EXPECT_EQ(clean("a\u202eb\u2066\u009b"), "a\uFFFDb\uFFFD\uFFFD");
  EXPECT_EQ(clean("a\xff"), "a\uFFFD");
  EXPECT_EQ(clean(""), "");
}

TEST(Screen, WrapsAtSpaces) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrap("one two three", 7, 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrap("one two three", 3, 20), (Lines{"one", "two three"}));
  EXPECT_EQ(wrap("a_very_long_word b", 4, 4), (Lines{"a_very_long_word", "b"}));
  EXPECT_EQ(wrap("  lead", 10, 10), (Lines{"lead"}));
  EXPECT_EQ(wrap("x  =  1", 10, 10), (Lines{"x  =  1"}));  // code keeps its blanks
  EXPECT_EQ(wrap("", 10, 10), (Lines{""}));
  EXPECT_EQ(wrap("one two three", 0, 0), (Lines{"one two three"}));
  EXPECT_EQ(wrap("語 語 語", 5, 5), (Lines{"語 語", "語"}));
}

TEST(Screen, Shortens) {
  EXPECT_EQ(shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(shorten("abcdefgh", 5), "ab…gh");
  EXPECT_EQ(shorten("abcdefgh", 0), "abcdefgh");
  EXPECT_EQ(width_of(shorten("語語語語語", 6)), 5);  // half a character is none
  EXPECT_EQ(shorten("abc", 1), "…");
}

TEST(Screen, WritesNumbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1204), "1,204");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(-1234), "-1,234");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted_more(1, "line"), "1 more line");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(1258291), "1.2 MiB");
  EXPECT_EQ(bytes_text((std::int64_t{1} << 30) - 1), "1.0 GiB");  // never "1024.0 MiB"
  EXPECT_EQ(bytes_text(std::numeric_limits<std::int64_t>::max()), "8.0 EiB");
}

TEST(Screen, ShortensPaths) {
  EXPECT_EQ(short_path("/home/me/work/train.py", "/home/me/work"), "train.py");
  EXPECT_EQ(short_path("/home/me/work/a/b.py", "/home/me/work/"), "a/b.py");
  EXPECT_EQ(short_path("/home/me/workshop/b.py", "/home/me/work"), "/home/me/workshop/b.py");
  EXPECT_EQ(short_path("/home/me/work", "/home/me/work"), "/home/me/work");
  EXPECT_EQ(short_path("./train.py", "/x"), "train.py");
  EXPECT_EQ(short_path("<string>", "/x"), "<string>");
  EXPECT_EQ(short_path("/v/lib/python3.11/site-packages/torch/nn/functional.py", "/v"), "torch/nn/functional.py");
  EXPECT_EQ(short_path("/usr/lib/python3/dist-packages/torch/x.py", ""), "torch/x.py");
  EXPECT_EQ(short_path("/usr/lib/python3.11/copy.py", ""), "copy.py");
  EXPECT_EQ(short_path("", "/x"), "");
}

TEST(Screen, PaintsOnlyWhenAsked) {
  EXPECT_EQ(paint("x", Tone::kError, false), "x");
  EXPECT_EQ(paint("x", Tone::kError, true), "\x1b[1;31mx\x1b[0m");
  EXPECT_EQ(paint("x", Tone::kPlain, true), "x");
  EXPECT_EQ(paint("", Tone::kError, true), "");
}

TEST(Phrase, NamesOperators) {
  EXPECT_EQ(operator_name("aten::add.Tensor"), "add");
  EXPECT_EQ(operator_name("add_"), "add_");
  EXPECT_EQ(operator_name("torch.load"), "torch.load");
  EXPECT_EQ(operator_name(""), "");
}

TEST(Phrase, WritesTypes) {
  EXPECT_EQ(type_text("torch.float32", {}), "float32[]");
  EXPECT_EQ(type_text("float32", {1, 2}), "float32[1, 2]");
  EXPECT_EQ(type_text("int8", {1, 2, 3, 4, 5, 6, 7}), "int8[1, 2, 3, …, 7]");
  EXPECT_EQ(type_text("", {1}), "");
}

std::vector<engine::Step> steps(std::initializer_list<engine::Action> actions) {
  std::vector<engine::Step> history;
  for (const engine::Action action : actions) {
    engine::Step& step = history.emplace_back();
    step.action = action;
    step.op = "op";
    step.device = "cpu";
    step.at.file = "t.py";
    step.at.line = static_cast<int>(history.size());
  }
  return history;
}

TEST(Phrase, TellsHistories) {
  EXPECT_EQ(history_text({}, true, ""), "");
  EXPECT_EQ(history_text(steps({engine::Action::kCreated}), true, ""), "created by op() at t.py:1, never moved");
  EXPECT_EQ(history_text(steps({engine::Action::kCreated}), false, ""), "created by op() at t.py:1");
  EXPECT_EQ(
      history_text(steps({engine::Action::kCreated, engine::Action::kMoved, engine::Action::kComputed}), true, ""),
      "computed by op() at t.py:3 from a tensor moved by op() at t.py:2");
  EXPECT_EQ(history_text(steps({engine::Action::kComputed}), true, ""), "computed by op() at t.py:1");
  EXPECT_EQ(history_text(steps({engine::Action::kForeign}), false, ""), "memory from outside PyTorch (op) at t.py:1");
  auto history = steps({engine::Action::kMoved});
  history[0].op = "_to_copy";
  EXPECT_EQ(history_text(history, true, ""), "moved by .to(\"cpu\") at t.py:1");
  history[0].at.text = "y = x.cpu()";
  EXPECT_EQ(history_text(history, true, ""), "moved by .cpu() at t.py:1");
  history[0].at = {};
  EXPECT_EQ(history_text(history, true, ""), "moved by .to(\"cpu\")");
  history = steps({engine::Action::kCreated});
  history[0].is_explicit = true;
  EXPECT_EQ(history_text(history, true, ""), "created on cpu by op() at t.py:1");
}

/// What stands above the carets, with the caret line of a snippet.
std::string under_carets(const std::string& text, int column, int end_column, int width = 80) {
  engine::Location at;
  at.line = at.end_line = 7;
  at.text = text;
  at.column = column;
  at.end_column = end_column;
  const std::string out = render_snippet(at, 1, Tone::kError, {.width = width, .directory = ""});
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < out.size();) {
    const std::size_t end = out.find('\n', begin);
    lines.push_back(out.substr(begin, end - begin));
    begin = end + 1;
  }
  if (lines.size() < 3) return "";
  const int from = width_of(lines[2].substr(0, lines[2].find('^'))), to = width_of(lines[2]);
  std::string above;
  int at_column = 0;
  for (const Cell& cell : cells_of(lines[1])) {
    if (at_column >= from && at_column < to) above += text_of({cell});
    at_column += cell.width;
  }
  return above;
}

TEST(Snippet, PutsCaretsUnderTheExpression) {
  EXPECT_EQ(under_carets("c = a + b", 4, 9), "a + b");
  EXPECT_EQ(under_carets("\tc\t= a + b", 5, 10), "a + b");
  EXPECT_EQ(under_carets("名前 = 甲 + 乙", 5, 10), "甲 + 乙");
  EXPECT_EQ(under_carets("e\u0301 = a + b", 5, 10), "a + b");
  EXPECT_EQ(under_carets("\xff\xfe = a + b", 5, 10), "a + b");
  EXPECT_EQ(under_carets("x = 1", 4, 4), "1");  // never less than one
  EXPECT_EQ(under_carets("x = 1", 500, 600), "1");
}

TEST(Snippet, KeepsTheExpressionInSightOfLongLines) {
  const std::string front(200, 'f'), back(200, 'b');
  EXPECT_EQ(under_carets(front + " + THIS + " + back, 203, 207), "THIS");
  EXPECT_EQ(under_carets("THIS + " + back, 0, 4), "THIS");
  EXPECT_EQ(under_carets(front + " + THIS", 203, 207), "THIS");
  EXPECT_EQ(under_carets(std::string(300, ' ') + "THIS + " + back, 300, 304), "THIS");
  EXPECT_EQ(under_carets(front + " + 甲乙 + " + back, 203, 205), "甲乙");
}

TEST(Snippet, IsEmptyWithoutText) {
  engine::Location at;
  EXPECT_EQ(render_snippet(at, 1, Tone::kError, {}), "");
  at.text = "x = 1";
  EXPECT_EQ(render_snippet(at, 1, Tone::kError, {}), "");  // which line?
  at.line = 3;
  EXPECT_EQ(render_snippet(at, 1, Tone::kError, {}), "  |\n3 | x = 1\n");
  at.text = " \t ";
  EXPECT_EQ(render_snippet(at, 1, Tone::kError, {}), "");
}

}  // namespace
}  // namespace locus::report
