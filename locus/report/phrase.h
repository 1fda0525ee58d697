// Facts in words: a place, a type, a step of a tensor's history. Plain text, already harmless for a screen.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/report.h"

namespace locus::report {

/// Of one finding, in the text and in the page alike; the rest is counted.
inline constexpr std::size_t kMaxRanks = 16, kMaxFixes = 3;

/// "train.py:41:16"; the column only when asked for and known.
std::string place(const engine::Location& at, std::string_view directory, bool with_column = false);
std::string place(std::string_view file, int line, std::string_view directory);

/// Whether it is a file's name, and not "<string>".
bool is_file(std::string_view name);

/// The path below `root`, for tools that count from there, or else the whole path. Relative paths start at `directory`.
std::string path_below(std::string_view file, std::string_view directory, std::string_view root);

/// Where a finding stands in a list: at the line to edit, or else at the first line where it hurts.
const engine::Location& primary(const engine::Finding& finding);

/// "LOC004: A tensor was made without a device".
std::string heading_of(const engine::Finding& finding);

/// Why it is wrong, or else what is wrong, in one line.
std::string in_one_sentence(const engine::Finding& finding);

/// Whether a fix is a change of text, and not only words.
bool is_edit(const engine::Fix& fix);

/// The page of a code in the documentation; its first page where there is no such code.
std::string page_uri(std::string_view code);

/// "aten::add.Tensor" is "add" to a person.
std::string operator_name(std::string_view op);

/// What a person wrote where the host waits: ".item()" for "aten::_local_scalar_dense", which only PyTorch calls.
std::string waiting_call(std::string_view kind);

/// What has grown since the baseline: "synchronization .item()", "transfer cpu → cuda:0", "memory cuda:0".
std::string change_words(const engine::Change& change);

/// "ranks 0–3 and 7".
std::string rank_ranges(const std::vector<int>& ranks);
/// "node-b: ranks 4–7, which left no report".
std::string host_words(const engine::Host& host);

/// One kind of what a dry run made up: "values made up at 3 lines", and where, the first ones.
struct MadeUpGroup {
  std::string words, places;
};
/// What one line made up, by its kind.
std::string_view made_up_words(std::string_view kind);
std::vector<MadeUpGroup> made_up_groups(const engine::DryRun& dry, std::string_view directory);

/// "float32[10, 3]"; long shapes are shortened in the middle.
std::string type_text(std::string_view dtype, const std::vector<std::int64_t>& shape);

/// "moved by .to(FIRST)", without the place.
std::string step_words(const engine::Step& step);

/// "computed by mul() at train.py:30 from a tensor created by randn() at train.py:12"; with ", never moved" for
/// a suspect that landed on the CPU and stayed.
std::string history_text(const std::vector<engine::Step>& history, bool suspect, std::string_view directory);

}  // namespace locus::report
