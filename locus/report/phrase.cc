// Facts in words; see phrase.h.
#include "locus/report/phrase.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "locus/engine/utf8.h"
#include "locus/report/screen.h"
#include "locus/version.h"

namespace locus::report {

using engine::Location;
using engine::Step;

namespace {

/// How the program spelled a move: `.cuda()`, `.cpu()` or `.to("cuda:0")`.
std::string move_call(const Step& step) {
  if (step.op == "cuda" || step.op == "cpu") return fmt::format(".{}()", step.op);
  if (step.at.text.find(".cuda(") != std::string::npos && step.device.starts_with("cuda")) return ".cuda()";
  if (step.at.text.find(".cpu(") != std::string::npos && step.device == "cpu") return ".cpu()";
  const std::string op = operator_name(step.op);
  const bool plain = op.empty() || op == "to" || op == "_to_copy";
  if (plain) return fmt::format(".to(\"{}\")", step.device);
  return op.ends_with(')') ? op : op + "()";  // the program's own spelling has its arguments already
}

std::string by_call(std::string_view verb, const Step& step) {
  const std::string op = operator_name(step.op);
  return op.empty() ? std::string(verb) : fmt::format("{} by {}{}", verb, op, op.ends_with(')') ? "" : "()");
}

}  // namespace

std::string step_words(const Step& step) {
  std::string words;
  if (step.action == engine::Action::kMoved) {
    words = "moved by " + move_call(step);
  } else if (step.action == engine::Action::kCreated) {
    words = by_call(step.is_explicit ? "created on " + step.device : "created", step);
  } else if (step.action == engine::Action::kReceived) {
    words = step.op.empty() ? "received" : "received from " + step.op;
  } else if (step.action == engine::Action::kForeign) {
    words = "memory from outside PyTorch" + (step.op.empty() ? "" : " (" + step.op + ")");
  } else {
    words = by_call(to_string(step.action), step);
  }
  return words;
}

namespace {

std::string step_text(const Step& step, std::string_view directory) {
  std::string words = step_words(step);
  if (step.at.line > 0) words += " at " + place(step.at, directory);
  return words;
}

}  // namespace

std::string place(std::string_view file, int line, std::string_view directory) {
  std::string text = file.empty() ? "<unknown>" : short_path(file, directory);
  if (line > 0) text += fmt::format(":{}", line);
  return text;
}

std::string place(const Location& at, std::string_view directory, bool with_column) {
  std::string text = place(at.file, at.line, directory);
  if (with_column && at.line > 0 && at.column >= 0) text += fmt::format(":{}", std::int64_t{at.column} + 1);
  return text;
}

bool is_file(std::string_view name) { return !name.empty() && !name.starts_with('<'); }

std::string path_below(std::string_view file, std::string_view directory, std::string_view root) {
  namespace fs = std::filesystem;
  const fs::path whole = (fs::path(directory) / fs::path(file)).lexically_normal();
  const fs::path below = whole.lexically_relative(fs::path(root.empty() ? directory : root));
  const bool inside = !below.empty() && below != "." && *below.begin() != "..";
  return engine::valid_utf8(inside ? below.generic_string() : whole.generic_string());
}

const Location& primary(const engine::Finding& finding) {
  if ((is_file(finding.cause.file) && finding.cause.line > 0) || finding.uses.empty()) return finding.cause;
  return finding.uses.front().at;
}

std::string heading_of(const engine::Finding& finding) {
  const engine::CodeInfo* code = engine::find_code(finding.code);
  return fmt::format("{}: {}", clean(finding.code), code == nullptr ? "tensors on different devices" : code->title);
}

std::string in_one_sentence(const engine::Finding& finding) {
  if (!finding.why.empty()) return clean(finding.why);
  if (!finding.message.empty()) return clean(finding.message);
  const engine::CodeInfo* code = engine::find_code(finding.code);
  return code == nullptr ? "tensors on different devices" : std::string(code->title);
}

bool is_edit(const engine::Fix& fix) {
  return fix.line > 0 && is_file(fix.file) && !(fix.old_text.empty() && fix.new_text.empty());
}

std::string page_uri(std::string_view code) {
  const bool known = engine::find_code(code) != nullptr;
  return fmt::format("{}{}", kDocumentation, known ? fmt::format("findings/{}/", code) : "");
}

std::string operator_name(std::string_view op) {
  if (const auto scope = op.find("::"); scope != op.npos) {
    op.remove_prefix(scope + 2);
    op = op.substr(0, op.find('.'));
  }
  return clean(op);
}

std::string waiting_call(std::string_view kind) {
  if (kind == "aten::_local_scalar_dense") return ".item()";
  if (kind == "aten::copy_") return ".cpu(), .to() or copy_()";
  const std::string name = operator_name(kind);
  return kind.starts_with("aten::") && !name.empty() ? name + "()" : name;
}

std::string_view made_up_words(std::string_view kind) {
  if (kind == "memory") return "more memory than the card has";
  if (kind == "shape") return "a shape that hangs on values";
  if (kind == "draw") return "random numbers not drawn";
  if (kind == "computed") return "computed on made-up values: there is no rule for the shape";
  return "a value that the host read";
}

std::vector<MadeUpGroup> made_up_groups(const engine::DryRun& dry, std::string_view directory) {
  constexpr std::size_t kShown = 5;
  std::vector<MadeUpGroup> groups;
  for (const std::string_view kind : {"memory", "value", "shape", "draw", "computed"}) {
    std::vector<const engine::MadeUpLine*> rows;
    std::int64_t most = 0;
    for (const engine::MadeUpLine& each : dry.made_up) {
      if (each.kind != kind) continue;
      rows.push_back(&each);
      most = std::max(most, each.bytes);
    }
    if (rows.empty()) continue;
    // A line that calls several operators has a row for each.
    std::set<std::pair<std::string_view, int>> distinct;
    for (const engine::MadeUpLine* each : rows) distinct.emplace(each->file, each->line);
    const std::string lines = counted(static_cast<std::int64_t>(distinct.size()), "line");
    std::string words = "values made up at " + lines;
    if (kind == "memory") words = "out of memory at " + lines + ", by " + bytes_text(most) + " at most; it went on";
    if (kind == "shape") words = "shapes that hang on values, taken as " + clean(dry.shapes) + ", at " + lines;
    if (kind == "draw") {
      words = "random numbers not drawn at " + lines + ", so that later ones are not those of a run with values";
    }
    if (kind == "computed") words = "computed on made-up values, because there is no rule for the shape, at " + lines;
    std::string places;
    std::size_t shown = 0;
    for (const engine::MadeUpLine* each : rows) {
      const engine::MadeUpLine& row = *each;
      if (distinct.erase({row.file, row.line}) == 0) continue;  // said
      if (shown++ == kShown) break;
      places += places.empty() ? "" : ", ";
      places += row.line > 0 ? place(row.file, row.line, directory) : "in backward";
      if (kind == "value" && !row.operation.empty()) {
        places += " (" + (row.operation == "aten::copy_" ? "a copy" : waiting_call(row.operation)) + ")";
      }
      if (kind == "shape" || kind == "computed") places += " (" + operator_name(row.operation) + ")";
    }
    if (shown > kShown) places += ", …";
    groups.push_back({std::move(words), std::move(places)});
  }
  return groups;
}

std::string rank_ranges(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  const auto follows = [&](std::size_t next) { return static_cast<std::int64_t>(ranks[next - 1]) + 1 == ranks[next]; };
  for (std::size_t first = 0, last = 0; first < ranks.size() && parts.size() < kMaxRanks; first = ++last) {
    while (last + 1 < ranks.size() && follows(last + 1)) ++last;
    parts.push_back(last == first ? std::to_string(ranks[first])
                                  : fmt::format("{}{}{}", ranks[first], last == first + 1 ? ", " : "–", ranks[last]));
  }
  if (parts.empty()) return "no rank";
  return (ranks.size() == 1 ? "rank " : "ranks ") + fmt::format("{}", fmt::join(parts, ", "));
}

std::string host_words(const engine::Host& host) {
  return fmt::format("{}: {}{}", host.name.empty() ? "not known" : clean(host.name), rank_ranges(host.ranks),
                     host.reported ? "" : ", which left no report");
}

std::string change_words(const engine::Change& change) {
  const std::string what = change.kind == "synchronization" ? waiting_call(change.what) : clean(change.what);
  return clean(change.kind) + " " + what;
}

std::string type_text(std::string_view dtype, const std::vector<std::int64_t>& shape) {
  constexpr std::size_t kMaxDims = 6;
  if (dtype.starts_with("torch.")) dtype.remove_prefix(6);
  if (dtype.empty()) return {};
  if (shape.size() <= kMaxDims) return fmt::format("{}[{}]", clean(dtype), fmt::join(shape, ", "));
  return fmt::format("{}[{}, …, {}]", clean(dtype), fmt::join(shape.begin(), shape.begin() + 3, ", "), shape.back());
}

std::string history_text(const std::vector<Step>& history, bool suspect, std::string_view directory) {
  if (history.empty()) return {};
  const Step& last = history.back();
  std::string words = step_text(last, directory);
  const Step* placed = &last;
  if (last.action == engine::Action::kComputed) {
    // What put it where it is happened earlier.
    const auto earlier = std::find_if(history.rbegin(), history.rend(),
                                      [](const Step& step) { return step.action != engine::Action::kComputed; });
    placed = earlier == history.rend() ? nullptr : &*earlier;
    if (placed != nullptr) words += " from a tensor " + step_text(*placed, directory);
  }
  const bool moved = std::any_of(history.begin(), history.end(),
                                 [](const Step& step) { return step.action == engine::Action::kMoved; });
  const bool landed = placed != nullptr && !placed->is_explicit && placed->device == "cpu";
  if (suspect && landed && !moved) words += ", never moved";
  return clean(words);
}

}  // namespace locus::report
