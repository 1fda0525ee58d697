// See blame_words.h.
#include "locus/engine/blame/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "locus/engine/said.h"

namespace locus::engine {
namespace {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string place(const Location& at) { return fmt::format("{}:{}", file_name(at.file), at.line); }

std::string called(const Operand& o) {
  if (!o.name.empty()) return "`" + o.name + "`";
  if (!o.expression.empty()) return "`" + o.expression + "`";
  const std::string words = nameless(o);
  return words == o.argument ? fmt::format("the argument `{}`", words) : "a " + words;
}

const Step* first_known(const Operand& o) {
  for (const Step& step : o.history) {
    if (step.at.line > 0) return &step;
  }
  return nullptr;
}

std::string made(const Operand& o) {
  const Step* step = first_known(o);
  if (step == nullptr) return "";
  return fmt::format("made by {}() at {}", step->op, place(step->at));
}

std::string moved_clause(const Owner& owner) {
  if (!owner.moved_at.has_value()) return "";
  return fmt::format("{}.to(\"{}\") at {}", owner.name, owner.moved_to, place(*owner.moved_at));
}

/// Who put it where it is: ", moved by .cpu() at train.py:12,".
std::string placed_clause(const Operand& o) {
  for (auto step = o.history.rbegin(); step != o.history.rend(); ++step) {
    if (step->action == Action::kComputed || step->at.line == 0) continue;
    const bool moved = step->action == Action::kMoved;
    return fmt::format(", {} by {}{} at {},", moved ? "moved" : "made", step->op, step->op.ends_with(')') ? "" : "()",
                       place(step->at));
  }
  return "";
}

/// "`x` was computed with a layer that was left behind: ", for a value that layers gave.
std::string computed_clause(const Operand& o) {
  const bool computed = !o.history.empty() && o.history.back().action == Action::kComputed;
  if (!computed || o.is_leaf || o.expression.empty() || o.name.empty()) return "";
  return fmt::format("`{}` was computed with a layer that was left behind: ", o.expression);
}

std::string devices_list(const std::vector<Operand>& operands, const std::string& home) {
  std::vector<std::string> seen;
  for (const Operand& o : operands) {
    if (!o.device.empty() && std::find(seen.begin(), seen.end(), o.device) == seen.end()) seen.push_back(o.device);
  }
  if (seen.size() == 1 && !home.empty() && home != seen.front()) seen.push_back(home);  // a refusal before any operator
  std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) {
    return (a != "cpu") > (b != "cpu") || (a != "cpu" && b != "cpu" && a < b);
  });
  std::string text;
  for (std::size_t i = 0; i < seen.size(); ++i) text += (i == 0 ? "" : i + 1 == seen.size() ? " and " : ", ") + seen[i];
  return text;
}

}  // namespace

std::string message_of(const Case& broken, Code code, const std::vector<Operand>& operands) {
  switch (code) {
    case Code::kIndex:
      if (broken.device == "cpu")
        return fmt::format("{}() into a tensor on the CPU needs its indices on the CPU", broken.op);
      return fmt::format("indices must be on the CPU or on the device of what {}() indexes, {}", broken.op,
                         broken.device);
    case Code::kLengthsMustBeCpu:
      return fmt::format("{}() needs its lengths on the CPU", broken.op);
    case Code::kGenerator:
      return fmt::format("{}() on {} got a generator of another device", broken.op, broken.device);
    case Code::kHostAccess:
      return fmt::format("{}() reads a CUDA tensor on the host", broken.op);
    case Code::kForkCuda:
      return "CUDA was used in a process that was forked from one that had used it";
    case Code::kReadTooEarly:
      return fmt::format("{} reads the result of a non-blocking copy before anything waited for it", said(broken.op));
    default:
      break;
  }
  if (broken.kind == CaseKind::kGradient) {
    const auto odd = std::find_if(operands.begin(), operands.end(), [](const Operand& o) { return o.odd; });
    // The start of a backward pass and `.grad =` take a gradient; hooks and custom functions give one.
    std::string who = broken.op + "() gave";
    if (broken.op == "grad") who = "`.grad =` got";
    if (broken.op == "backward") who = "backward() got";
    if (broken.op == "a hook") who = "a hook gave";
    return fmt::format("a gradient must be where its tensor is, but {} one on {} for a tensor on {}", who,
                       odd != operands.end() ? odd->device : "another device", broken.device);
  }
  if (!broken.refused_with.empty()) return broken.refused_with;
  const std::string where = broken.in_backward ? " in backward" : "";
  return fmt::format("expected all tensors to be on the same device, but {}(){} got {}", broken.op, where,
                     devices_list(operands, broken.device));
}

std::string why_of(const Case& broken, Code code, const Operand& o, const std::string& expected, int cause_line) {
  const std::string name = called(o);
  const std::string origin = made(o);
  const std::string comma_origin = origin.empty() ? "" : ", " + origin + ",";
  const Owner owner = o.owner.value_or(Owner{});
  const std::string owner_name = owner.name.empty() ? "its module" : "`" + owner.name + "`";
  const std::string owner_class = owner.class_name.empty() ? "" : " (" + owner.class_name + ")";
  switch (code) {
    case Code::kModelNotMoved:
      if (owner.moved_at.has_value()) {
        return fmt::format("{}{} is on {}, although {} moved its module: it was made or put there after that", name,
                           comma_origin, o.device, moved_clause(owner));
      }
      if (owner.device == expected) {
        return fmt::format(
            "{} is a {} of {}{}, whose others are on {}: it was made or put there by itself, and not moved", name,
            to_string(o.kind), owner_name, owner_class, expected);
      }
      return fmt::format("{} is a {} of {}{}, which was never moved to {}", name, to_string(o.kind), owner_name,
                         owner_class, expected);
    case Code::kPlainContainer:
      return fmt::format("{}{} is in a plain {} of {}{}; {} moves registered modules and parameters only",
                         computed_clause(o), name, owner.container.empty() ? "container" : owner.container, owner_name,
                         owner_class, owner.moved_at.has_value() ? moved_clause(owner) : ".to()");
    case Code::kPlainAttribute:
      return fmt::format("{} is a plain attribute of {}{}; {} moves parameters and buffers only", name, owner_name,
                         owner_class, owner.moved_at.has_value() ? moved_clause(owner) : ".to()");
    case Code::kCache: {
      std::string placed = placed_clause(o);  // ", made by ones() at train.py:12,"
      if (!placed.empty()) placed = " (" + placed.substr(2, placed.size() - 3) + ")";
      if (!o.owner.has_value()) {
        return fmt::format("{} was made on {} and kept{}; this call is on {}", name, o.device, placed, expected);
      }
      return fmt::format("{} was put into {}{} on {} and kept{}; this call is on {}", name, owner_name, owner_class,
                         o.device, placed, expected);
    }
    case Code::kToNotAssigned: {
      const auto edit = std::ranges::find(o.candidates, EditKind::kAssignTo, &Candidate::edit);
      const bool by_cuda = edit != o.candidates.end() && edit->fix.has_value() &&
                           edit->fix->new_text.find(".cuda(") != std::string::npos;
      return fmt::format("{}{} gives a moved copy and leaves {} where it was; the result was not kept", name,
                         by_cuda ? ".cuda()" : ".to()", name);
    }
    case Code::kBatchNotMoved:
      return fmt::format("{} came {} and was not moved to {}", name,
                         has_action(o, Action::kReceived) ? "from the data loader"
                         : o.kind == Kind::kBatch         ? "with a batch"
                                                          : "from the data",
                         expected);
    case Code::kInconsistentSource: {
      std::string counts;
      for (const auto& [device, count] : o.made_here) {
        counts += fmt::format("{}{} {} time{}", counts.empty() ? "" : " and ", device, count, count == 1 ? "" : "s");
      }
      if (counts.empty())
        return fmt::format("samples of one batch are on different devices: {} is on {}, others on {}", name, o.device,
                           expected);
      return fmt::format("one line made {}: {} is one of those on {}, met first at step {}", counts, name, o.device,
                         broken.step);
    }
    case Code::kLossWeight:
      return fmt::format("{} belongs to a loss that was not moved to {}", name, expected);
    case Code::kOptimizerState:
      if (const Step* made_here = first_known(o);
          made_here != nullptr && made_here->action == Action::kCreated && cause_line == made_here->at.line) {
        return fmt::format("{}, {}, was made without a device and landed on {}; its parameter is on {}", name, origin,
                           o.device, expected);
      }
      return fmt::format(
          "{} stayed on {} while its parameter is on {}: state that is loaded or made before a move does not follow it",
          name, o.device, expected);
    case Code::kCheckpoint:
      return fmt::format("{} was loaded onto {}{}", name, o.device,
                         broken.use.line > 0 ? ", where the checkpoint had it or map_location put it" : "");
    case Code::kHandoffMissing:
      return fmt::format("{} is on {} and the rest of the call on {}; nothing moves it between the two", name, o.device,
                         expected);
    case Code::kReplicaPinned:
      return fmt::format("{} is pinned to {}{} but this replica runs on {}", name, o.device, comma_origin, expected);
    case Code::kIndex:
      if (broken.device == "cpu") {
        return fmt::format("{} is on {}; a tensor on the CPU can be indexed from the CPU only", name, o.device);
      }
      return fmt::format("{} is on {}; a tensor on {} can be indexed from the CPU or from {} only", name, o.device,
                         broken.device, broken.device);
    case Code::kLengthsMustBeCpu:
      return fmt::format("{} is on {}; sequence lengths are read on the host", name, o.device);
    case Code::kGenerator:
      return fmt::format("a generator draws on its own device only; this call is on {}", expected);
    case Code::kHostAccess:
      return fmt::format("{} is on {}; NumPy and the host can't see device memory", name, o.device);
    case Code::kForkCuda:
      return "a forked process can't use CUDA after its parent did; keep tensors on the CPU in workers, or start them "
             "with spawn";
    case Code::kReadTooEarly:
      return fmt::format(
          "the copy of {} from {} was started with non_blocking=True; until the stream is waited for, the host may see "
          "old bytes",
          name, broken.device);
    case Code::kGradient:
      if (broken.kind == CaseKind::kGradient) {
        return fmt::format("{}{} is on {}; autograd takes a gradient of a tensor on {} from there only", name,
                           placed_clause(o), o.device, expected);
      }
      return fmt::format("{}{} is on {} and the gradient flows on {}", name, comma_origin, o.device, expected);
    case Code::kDeviceNotPassed:
      return fmt::format(
          "{}{} is on {}: the function that made it takes the device and was not given it; the call is on {}", name,
          comma_origin, o.device, expected);
    case Code::kDefaultDevice:
      return fmt::format("{}{} was made without a device and landed on {}; the call is on {}", name, comma_origin,
                         o.device, expected);
    default:
      return fmt::format("{} is on {} and the rest of the call on {}", name, o.device, expected);
  }
}

}  // namespace locus::engine
