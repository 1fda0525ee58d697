// The models of the program as trees, colored by device: a bar at each module shows how its tensors are spread, and
// what stands out (several devices, a tensor that .to() passes by) is open already.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "locus/report/html_parts.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {

using engine::Model;
using engine::ModelRow;

namespace {

constexpr std::size_t kModelBytes = 220'000, kMaxModels = 12;
constexpr std::size_t kMaxDepth = 40;

/// What is below a row.
struct Share {
  std::map<std::string, double> bytes;  // by device; at least one for each tensor, so that empty ones are seen
  std::int64_t tensors = 0;
  bool passed_by = false;
};

class Tree {
 public:
  explicit Tree(const Model& model) : model_(model), shares_(model.rows.size()), ends_(model.rows.size()) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < model.rows.size(); ++i) {
      close(open, model.rows[i].depth, i);
      const ModelRow& row = model.rows[i];
      open.push_back(i);
      if (row.kind == "module") continue;
      for (const std::size_t above : open) {
        shares_[above].bytes[row.device] += static_cast<double>(std::max<std::int64_t>(row.bytes, 1));
        ++shares_[above].tensors;
        shares_[above].passed_by = shares_[above].passed_by || !row.reached;
      }
    }
    close(open, -1, model.rows.size());
  }

  std::string render(std::size_t budget) {
    budget_ = budget;
    std::size_t at = 0;
    while (at < model_.rows.size() && out_.size() < budget_) at = row(at, 0);
    left_ += static_cast<std::int64_t>(model_.rows.size() - at);
    const std::int64_t more = left_ + std::clamp<std::int64_t>(model_.more_rows, 0, 1'000'000'000);
    if (more > 0) out_ += "<p class=dim>… and " + counted_more(more, "row") + "</p>";
    return std::move(out_);
  }

 private:
  void close(std::vector<std::size_t>& open, int depth, std::size_t end) {
    while (!open.empty() && (open.size() >= kMaxDepth || model_.rows[open.back()].depth >= depth)) {
      ends_[open.back()] = end;
      open.pop_back();
    }
  }

  /// Renders a row and what is below it; the row behind them.
  std::size_t row(std::size_t at, int level) {
    const ModelRow& here = model_.rows[at];
    if (here.kind != "module") {
      tensor(here);
      return at + 1;
    }
    const Share& share = shares_[at];
    const bool interesting = share.bytes.size() > 1 || share.passed_by;
    out_ += fmt::format("<details class=mod{}><summary>{}<small>{}</small>{}<small>{}</small>{}</summary><div>",
                        level == 0 || interesting ? " open" : "", html_code(here.name, 60),
                        html_words(here.class_name, 40), bar(share), counted(share.tensors, "tensor"), chips(share));
    std::size_t next = at + 1;
    while (next < ends_[at] && out_.size() < budget_) next = row(next, level + 1);
    left_ += static_cast<std::int64_t>(ends_[at] - std::min(next, ends_[at]));
    out_ += "</div></details>\n";
    return ends_[at];
  }

  void tensor(const ModelRow& row) {
    out_ += fmt::format("<div class=\"tensor{}\"><i class=\"dot {}\"></i>{}<small>{}</small>{}",
                        row.reached ? "" : " lost", device_class(row.device), html_code(row.name, 60),
                        escape(shorten(type_text(row.dtype, row.shape), 60)), device_chip(row.device));
    if (row.kind != "parameter") out_ += "<small>" + html_words(row.kind, 40) + "</small>";
    if (!row.reached) out_ += "<small class=warn>.to() passes it by</small>";
    out_ += "</div>\n";
  }

  static std::string bar(const Share& share) {
    double total = 0;
    for (const auto& [device, bytes] : share.bytes) total += bytes;
    std::string out = "<span class=split aria-hidden=true>";
    for (const auto& [device, bytes] : share.bytes) {
      out += fmt::format("<i class=\"{}\" style=\"width:{}\"></i>", device_class(device), percent(bytes, total));
    }
    return out + "</span>";
  }

  static std::string chips(const Share& share) {
    std::string out;
    std::size_t shown = 0;
    for (const auto& [device, bytes] : share.bytes) {
      if (++shown <= 8) out += device_chip(device);
    }
    return out;
  }

  const Model& model_;
  std::vector<Share> shares_;
  std::vector<std::size_t> ends_;
  std::size_t budget_ = 0;
  std::int64_t left_ = 0;
  std::string out_;
};

}  // namespace

std::string html_models(const engine::Report& report) {
  std::string out;
  std::size_t shown = 0;
  for (const Model& model : report.models) {
    if (model.rows.empty()) continue;
    if (shown == kMaxModels || out.size() > kModelBytes) break;
    ++shown;
    std::string name = "<code>" + html_words(model.name.empty() ? model.class_name : model.name, 60) + "</code>";
    if (!model.class_name.empty() && !model.name.empty() && model.class_name != model.name) {
      name += " <small>" + html_words(model.class_name, 60) + "</small>";
    }
    out += "<h3>" + name + "</h3><div class=tree>" + Tree(model).render(kModelBytes) + "</div>\n";
  }
  if (out.empty()) return {};
  return "<section id=models><h2>Where the model is</h2>\n" + out + "</section>\n";
}

}  // namespace locus::report
