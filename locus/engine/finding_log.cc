// Grouping: many events, few root causes. One mutex guards it all; a repeat costs one lookup in a hash table.
// Bounded in findings, in places listed per finding and in keys remembered.
#include "locus/engine/finding_log.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace locus::engine {

namespace {

constexpr std::size_t kMaxKeys = 1 << 16;
constexpr std::size_t kMaxUnlistedUses = 1 << 12;  // told apart per finding; the number of further ones is a floor

constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325ULL;

/// FNV-1a: the same on every machine and in every run, which std::hash is not.
std::uint64_t fnv(std::string_view text, std::uint64_t hash = kFnvBasis) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return (hash ^ 0x1f) * 0x100000001b3ULL;  // a separator: "ab","c" is not "a","bc"
}

const std::string& culprit_label(const Finding& finding) {
  return finding.culprit.name.empty() ? finding.culprit.expression : finding.culprit.name;
}

bool same_place(const Use& a, const Use& b) { return a.at.line == b.at.line && a.op == b.op && a.at.file == b.at.file; }

void merge_ranks(std::vector<int>& seen, const std::vector<int>& more) {
  seen.insert(seen.end(), more.begin(), more.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
}

auto report_order(const Finding& finding) {
  return std::tie(finding.severity, finding.cause.file, finding.cause.line, finding.cause.column, finding.code,
                  finding.culprit.name, finding.culprit.expression);
}

/// One edit fixes one cause, wherever the findings that ask for it were met; empty where there is no edit.
std::string edit_key(const Finding& finding) {
  if (finding.fixes.empty()) return "";
  const Fix& fix = finding.fixes.front();
  std::string key(to_string(finding.severity));
  for (const std::string& part : {std::string("edit"), fix.file, std::to_string(fix.line), fix.new_text}) {
    key += '\0';
    key += part;
  }
  return key;
}

/// The operators inside one call of a library's function that got the same tensor; empty where there is no such call.
std::string call_key(const Finding& finding) {
  if (finding.uses.empty() || !finding.uses.front().library || culprit_label(finding).empty()) return "";
  const Location& at = finding.uses.front().at;
  const auto placed = std::find_if(finding.history.rbegin(), finding.history.rend(),
                                   [](const Step& step) { return step.action != Action::kComputed; });
  std::string key = finding.code;
  for (const std::string& part :
       {std::string("call"), at.file, std::to_string(at.line), std::to_string(at.column), std::to_string(at.end_column),
        culprit_label(finding), placed == finding.history.rend() ? "" : std::to_string(placed->at.line)}) {
    key += '\0';
    key += part;
  }
  return key;
}

}  // namespace

std::string root_cause(const Finding& finding) {
  const Location* at = &finding.cause;
  if (at->line == 0 && !finding.uses.empty()) at = &finding.uses.front().at;
  std::string key = finding.code;
  // One line that holds many tensors (a model, a list of layers, an optimizer's state, a checkpoint) is one cause.
  const bool holds_many =
      finding.cause.line > 0 &&
      (finding.code == info(Code::kModelNotMoved).code || finding.code == info(Code::kPlainContainer).code ||
       finding.code == info(Code::kOptimizerState).code || finding.code == info(Code::kCheckpoint).code);
  // Several culprits that one expression made are one cause too, whatever they are called later.
  const bool is_expression = finding.cause.line > 0 && finding.cause.end_column > 0;
  const std::string span = std::to_string(finding.cause.column) + "-" + std::to_string(finding.cause.end_column);
  const std::string what = holds_many ? "" : is_expression ? "@" + span : culprit_label(finding);
  for (const std::string& part : {at->file, std::to_string(at->line), what}) {
    key += '\0';
    key += part;
  }
  return key;
}

std::string fingerprint(const Finding& finding) {
  std::uint64_t hash = fnv(finding.code);
  hash = fnv(base_name(finding.cause.file), hash);
  hash = fnv(finding.cause.function, hash);
  hash = fnv(culprit_label(finding), hash);
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(hash >> shift) & 15];
  return text;
}

struct FindingLog::State {
  static constexpr std::size_t kUnlisted = static_cast<std::size_t>(-1);

  struct Group {
    Finding finding;
    std::unordered_set<std::uint64_t> unlisted;  // hashes of places beyond kMaxUses
  };
  struct Place {
    std::size_t group;
    std::size_t use;
  };

  mutable std::mutex mutex;
  std::vector<Group> groups;
  std::unordered_map<std::string, std::size_t> by_root;
  std::unordered_map<std::uint64_t, Place> by_key;
  std::int64_t dropped = 0;

  /// Where this use is counted from now on.
  static std::size_t merge_use(Group& group, Use use) {
    Finding& finding = group.finding;
    for (std::size_t i = 0; i < finding.uses.size(); ++i) {
      Use& seen = finding.uses[i];
      if (!same_place(seen, use)) continue;
      seen.count += use.count;
      seen.first_step = std::min(seen.first_step, use.first_step);
      if (!seen.library) seen.library = std::move(use.library);
      if (!seen.caught_by) seen.caught_by = std::move(use.caught_by);
      return i;
    }
    if (finding.uses.size() < kMaxUses) {
      finding.uses.push_back(std::move(use));
      return finding.uses.size() - 1;
    }
    const std::uint64_t hash = fnv(use.op, fnv(std::to_string(use.at.line), fnv(use.at.file)));
    if (group.unlisted.size() < kMaxUnlistedUses && group.unlisted.insert(hash).second) ++finding.more_uses;
    return kUnlisted;
  }
};

FindingLog::FindingLog() : state_(std::make_unique<State>()) {}
FindingLog::~FindingLog() = default;

void FindingLog::add(Finding finding, std::uint64_t key) {
  if (finding.id.empty()) finding.id = fingerprint(finding);
  std::int64_t in_uses = 0;
  for (Use& use : finding.uses) {
    use.count = std::max<std::int64_t>(use.count, 1);
    in_uses += use.count;
  }
  finding.count = std::max({finding.count, in_uses, std::int64_t{1}});
  const std::string root = root_cause(finding);
  const std::string others[] = {edit_key(finding), call_key(finding)};

  const std::lock_guard lock(state_->mutex);
  auto known = state_->by_root.find(root);
  for (const std::string& other : others) {
    if (known == state_->by_root.end() && !other.empty()) known = state_->by_root.find(other);
  }
  if (known == state_->by_root.end() && state_->groups.size() >= kMaxFindings) {
    state_->dropped += finding.count;
    return;
  }
  std::vector<Use> uses = std::move(finding.uses);
  finding.uses.clear();
  std::size_t index = 0;
  if (known == state_->by_root.end()) {
    index = state_->groups.size();
    state_->by_root.emplace(root, index);
    for (const std::string& other : others) {
      if (!other.empty()) state_->by_root.emplace(other, index);
    }
    state_->groups.push_back({std::move(finding), {}});
  } else {
    index = known->second;
    Finding& seen = state_->groups[index].finding;
    seen.count += finding.count;
    seen.first_step = std::min(seen.first_step, finding.first_step);
    seen.more_uses += finding.more_uses;
    // The first event speaks for all; a later one only fills what the first could not know.
    if (seen.fixes.empty()) seen.fixes = std::move(finding.fixes);
    if (seen.why.empty()) seen.why = std::move(finding.why);
    if (!seen.forward) seen.forward = std::move(finding.forward);
    merge_ranks(seen.ranks, finding.ranks);
  }
  std::size_t first_use = State::kUnlisted;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::size_t use = State::merge_use(state_->groups[index], std::move(uses[i]));
    if (i == 0) first_use = use;
  }
  if (key != 0 && state_->by_key.size() < kMaxKeys)
    state_->by_key.insert_or_assign(key, State::Place{index, first_use});
}

bool FindingLog::count_more(std::uint64_t key, std::int64_t times) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->by_key.find(key);
  if (found == state_->by_key.end()) return false;
  Finding& finding = state_->groups[found->second.group].finding;
  finding.count += times;
  if (found->second.use != State::kUnlisted) finding.uses[found->second.use].count += times;
  return true;
}

std::vector<Finding> FindingLog::findings() const {
  std::vector<Finding> sorted;
  {
    const std::lock_guard lock(state_->mutex);
    sorted.reserve(state_->groups.size());
    for (const State::Group& group : state_->groups) sorted.push_back(group.finding);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Finding& a, const Finding& b) { return report_order(a) < report_order(b); });
  std::unordered_map<std::string, int> taken;
  for (Finding& finding : sorted) {
    const int nth = ++taken[finding.id];
    if (nth > 1) finding.id += "-" + std::to_string(nth);
  }
  return sorted;
}

std::size_t FindingLog::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->groups.size();
}

std::int64_t FindingLog::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

void FindingLog::clear() {
  const std::lock_guard lock(state_->mutex);
  state_->groups.clear();
  state_->by_root.clear();
  state_->by_key.clear();
  state_->dropped = 0;
}

}  // namespace locus::engine
