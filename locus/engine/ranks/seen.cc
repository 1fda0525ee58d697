// See seen.h.
#include "locus/engine/ranks/seen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "locus/engine/json_fields.h"
#include "locus/engine/ranks/sharding_words.h"
#include "locus/engine/ranks/words.h"
#include "locus/engine/told_facts.h"

namespace locus::engine::ranks {
namespace {

using fields::Fields;

constexpr told::KindInfo<Seen> kSeen[] = {
#define LOCUS_INFO(name, text, reason) {Seen::name, text, reason},
    LOCUS_SEEN(LOCUS_INFO)
#undef LOCUS_INFO
};

std::string on_device(const std::string& device) { return device == "cpu" ? "the CPU" : device; }
std::string number_of(const std::string& device) { return device.substr(device.find(':') + 1); }

Told cpu_tensor(const Facts& facts) {
  const std::string name = facts.operands.empty() ? "" : facts.operands.front().name;
  return {
      facts.op + "() of an NCCL group got a tensor on the CPU",
      (name.empty() ? "the tensor" : "`" + name + "`") + " is on the CPU; NCCL moves the memory of CUDA devices only",
      {"move it to the rank's device first, or use a group with Gloo for CPU tensors (\"cpu:gloo,cuda:nccl\")"}};
}

Told cpu_module(const Facts& facts) {
  return {
      fmt::format("DistributedDataParallel over an NCCL group was given {}, which is on the CPU", facts.subject),
      fmt::format("{} and the rest of {} were never moved to the rank's device", listed(facts.names), facts.subject),
      {"move the module to the rank's device before it is wrapped"}};
}

Told shared_device(const Facts& facts) {
  const std::string message = fmt::format("ranks {} of one group all use {}; NCCL wants a device for each rank",
                                          fmt::join(facts.ranks, ", "), facts.device);
  if (facts.used) {
    const std::string name = facts.operands.empty() ? "" : facts.operands.front().name;
    return {message,
            fmt::format("{} was put on {} at {}, on every rank, although each chooses a device of its own at {}",
                        name.empty() ? "the tensor" : "`" + name + "`", facts.device, at(facts.made), at(*facts.used)),
            {"\"cuda\" is the rank's own device there; a number that is written down is the same on every rank"}};
  }
  if (facts.made.line > 0)
    return {message,
            fmt::format("{} is written down at {}, where it is the same on every rank", facts.device, at(facts.made)),
            {"write the rank's own device there, and give its number where a number is asked for (device_ids)"}};
  const char* number = facts.subject == "LOCAL_RANK" ? "int(os.environ[\"LOCAL_RANK\"])" : "rank";
  return {message,
          fmt::format("\"cuda\" is {} in every process until torch.cuda.set_device() chooses another; {} is not used "
                      "for it",
                      facts.device, facts.subject),
          {fmt::format("call torch.cuda.set_device({}) before anything is put on a device", number)}};
}

Told shared_checkpoint(const Facts& facts) {
  return {fmt::format("every rank loads {} onto {}", facts.subject, facts.device),
          fmt::format("torch.load() without map_location puts {} back on {}, where {} saved; this rank's device "
                      "is {}",
                      facts.count == 1 ? "a tensor" : fmt::format("{} tensors", facts.count), facts.device,
                      facts.count == 1 ? "it was" : "they were", facts.expected),
          {}};
}

Told scattered(const Facts& facts) {
  const Pronouns words(facts.names.size());
  const std::string where = on_device(facts.device);
  const std::string_view kind = facts.operands.empty() ? "" : to_string(facts.operands[0].kind);
  return {fmt::format("{} was given {} with {} {}{} on {} and the rest on {}", facts.wrapper, facts.subject,
                      facts.names.size(), kind, words.s(), where, facts.expected),
          fmt::format("{} {} left on {}; the module must be on {} as a whole", listed(facts.names), words.was(), where,
                      facts.expected),
          {fmt::format("move the whole module right before it is wrapped: model.to('{}')", facts.expected)}};
}

Told several_devices(const Facts& facts) {
  return {
      fmt::format("{} was given {}, which is on {}", facts.wrapper, facts.subject, fmt::join(facts.devices, " and ")),
      fmt::format("{} {} on {}, the rest on another device", listed(facts.names),
                  facts.names.size() == 1 ? "is" : "are", facts.device),
      {"move the whole module right before it is wrapped"}};
}

Told pinned(const Facts& facts) {
  return {fmt::format("pin_memory() got a tensor on {}; only the host's memory can be pinned",
                      facts.device.empty() ? "a CUDA device" : facts.device),
          "a tensor that is on a device already needs no pinned copy on the host",
          {facts.wrapper == "DataLoader" ? "leave the dataset's tensors on the CPU, or give the loader pin_memory=False"
                                         : "leave pin_memory() out"}};
}

Told saved_elsewhere(const Facts& facts) {
  const std::string here = facts.count == 0   ? "there is no CUDA device"
                           : facts.count == 1 ? "is cuda:0 only"
                                              : fmt::format("are {} CUDA devices", facts.count);
  return {fmt::format("{} was saved on {}, which this machine has not",
                      facts.subject.empty() ? "a checkpoint" : facts.subject,
                      facts.device.empty() ? "a CUDA device" : facts.device),
          "torch.load() puts each tensor back on the device it was saved from unless map_location says otherwise; "
          "here " +
              here,
          {}};
}

Told device_ids(const Facts& facts) {
  return {fmt::format("device_ids names {}, but {} is on {}", facts.expected, facts.subject, facts.device),
          fmt::format("inputs would be moved to {}; the parameters, {} among them, are on {}", facts.expected,
                      listed(facts.names), facts.device),
          {fmt::format("move the module to {} before wrapping, or give device_ids=[{}]", facts.expected,
                       facts.output.empty() ? number_of(facts.device) : facts.output)}};
}

Told moved_after_wrapping(const Facts& facts) {
  return {fmt::format("{} was moved to {} after it was wrapped on {}", facts.subject, facts.device, facts.expected),
          fmt::format("DistributedDataParallel was made at {}, with its buckets on {}; the parameters were moved to {} "
                      "at {}",
                      at(facts.made), facts.expected, facts.device, at(facts.cause.value_or(Location()))),
          {"move first, then wrap"}};
}

Told optimizer_before(const Facts& facts) {
  const auto old = static_cast<std::int64_t>(facts.names.size());
  const Pronouns words(facts.names.size());
  const std::string made = at(facts.cause.value_or(Location()));
  const std::string came = facts.made.line > 0 ? fmt::format(", from {},", at(facts.made)) : "";
  const std::vector<std::string> notes{
      "make the optimizer after the model is sharded, filled, copied or changed; or make it again there"};
  if (old == 0)
    return {facts.wrapper + " stepped, but none of its parameters has a gradient",
            fmt::format("the optimizer was made at {}, and what it holds is not what is trained: `{}` of {}{} has a "
                        "gradient that no optimizer uses",
                        made, facts.output, facts.subject, came),
            notes};
  const std::string held = old == facts.count ? "none of its parameters is the model's any more"
                                              : fmt::format("{} of its {} parameters {} no longer the model's", old,
                                                            facts.count, old == 1 ? "is" : "are");
  return {fmt::format("{} stepped, but {}", facts.wrapper, held),
          fmt::format("{} of {} {} replaced after the optimizer was made at {}; the new `{}`{} has a gradient that no "
                      "optimizer uses, and is not trained",
                      listed(facts.names), facts.subject, words.was(), made, facts.output, came),
          notes};
}

std::string unfinished_message(const Facts& facts) {
  return fmt::format("the gradients of {} were not all reduced: {} parameter{} of {} got none in this backward pass",
                     facts.subject, facts.names.size(), Pronouns(facts.names.size()).s(), facts.count);
}

Told frozen(const Facts& facts) {
  const Pronouns words(facts.names.size());
  return {unfinished_message(facts),
          fmt::format("{} had requires_grad set to False after the module was wrapped at {}, which still waits for {} "
                      "gradient",
                      listed(facts.names), at(facts.made), words.its()),
          {fmt::format("freeze {} before DistributedDataParallel is made, at {}", words.it(), at(facts.made))}};
}

Told lost(const Facts& facts) {
  return {unfinished_message(facts),
          fmt::format("{} took part in {} of forward(), but {} did not reach the loss", listed(facts.names),
                      facts.output, facts.output),
          {fmt::format("use {} in the loss, or don't return it; static_graph=True where every step is like this one",
                       facts.output)}};
}

/// Parameters that no output of forward() depends on.
Told unused(const Facts& facts) {
  const Pronouns words(facts.names.size());
  const std::string shown = listed(facts.names), it = words.it(), wrapped_at = at(facts.made);
  const std::string always = "static_graph=True will do, too, where every step leaves out the same parameters";
  if (facts.branch)
    return {unfinished_message(facts),
            fmt::format("{} took no part in what forward() returned: {} used only {}", shown, words.it_is(),
                        way_words(*facts.branch)),
            {"find_unused_parameters=True, where steps or ranks take different branches"}};
  if (facts.used)
    return {unfinished_message(facts),
            fmt::format("forward() uses {} at {}, but nothing that it returned leads back to {}: the result was not "
                        "used, or was cut off (detach(), no_grad(), a comparison)",
                        shown, at(*facts.used), it),
            {fmt::format("let the gradient through, or freeze {} before wrapping, at {}", it, wrapped_at), always}};
  return {unfinished_message(facts),
          shown + " took no part in what forward() returned",
          {fmt::format("use {0} in forward(), or take {0} out of the module; or freeze {0} before wrapping "
                       "(requires_grad_(False) before {1})",
                       it, wrapped_at),
           always + "; find_unused_parameters=True where steps differ in that"}};
}

constexpr const char* kOneBackward =
    "add the losses up and call backward() once, or run the earlier ones under no_sync()";

Told second_backward(const Facts& facts) {
  return {fmt::format("a second backward() after one forward() of {} is not reduced", facts.subject),
          "the gradients of all ranks were added up at the end of the first backward(); what this one adds stays on "
          "its own rank, and the ranks' parameters drift apart",
          {kOneBackward}};
}

Told ready_twice(const Facts& facts) {
  Told told{fmt::format("a gradient of {} was ready twice in one iteration", facts.subject), "", {}};
  if (facts.seen == Seen::kTwiceByBackward) {
    told.why =
        "backward() ran a second time after one forward(), and each parameter may be reduced once for each "
        "forward()";
    told.notes = {kOneBackward};
  } else if (facts.seen == Seen::kTwiceByCheckpoint) {
    told.why = fmt::format(
        "the part that checkpoint() at {} runs again is used more than once, and reentrant "
        "checkpointing gives its gradient each time",
        at(facts.made));
    told.notes = {"checkpoint(…, use_reentrant=False); static_graph=True where every step is like this one"};
  } else {
    told.why =
        "it is used in two graphs of one backward pass (a part that is run twice under reentrant checkpointing, "
        "or outside of forward())";
    told.notes = {"use it inside forward() only; static_graph=True where every step is like this one"};
  }
  if (!facts.names.empty()) told.why = "`" + facts.names.front() + "`: " + told.why;
  return told;
}

/// `names`: the members that each of the two ranks gave.
Told other_group(const Facts& facts) {
  const int one = facts.ranks.front(), other = facts.ranks.back();
  return {fmt::format("ranks {} and {} called new_group() for other ranks, as number {}", one, other, facts.count),
          fmt::format("rank {}: new_group({}) at {}; rank {}: new_group({}) at {}: groups are told apart by the order "
                      "in which they are made, so these two would wait for each other in vain",
                      one, facts.names.front(), at(facts.use), other, facts.names.back(), at(facts.made)),
          {"make all groups on every rank, in the same order, also those that the rank is no member of; which of them "
           "it uses is decided afterwards"}};
}

Told sentences(const Facts& facts) {
  switch (facts.seen) {
    case Seen::kCpuTensor:
      return cpu_tensor(facts);
    case Seen::kCpuModule:
      return cpu_module(facts);
    case Seen::kSharedDevice:
      return shared_device(facts);
    case Seen::kSharedCheckpoint:
      return shared_checkpoint(facts);
    case Seen::kScattered:
      return scattered(facts);
    case Seen::kSeveralDevices:
      return several_devices(facts);
    case Seen::kDeviceIds:
      return device_ids(facts);
    case Seen::kMovedAfterWrapping:
      return moved_after_wrapping(facts);
    case Seen::kOptimizerBefore:
      return optimizer_before(facts);
    case Seen::kFrozen:
      return frozen(facts);
    case Seen::kLost:
      return lost(facts);
    case Seen::kUnused:
      return unused(facts);
    case Seen::kSecondBackward:
      return second_backward(facts);
    case Seen::kTwiceByBackward:
    case Seen::kTwiceByCheckpoint:
    case Seen::kTwice:
      return ready_twice(facts);
    case Seen::kPinned:
      return pinned(facts);
    case Seen::kSavedElsewhere:
      return saved_elsewhere(facts);
    case Seen::kMixedTensors:
      return mixed_tensors(facts);
    case Seen::kOtherSharding:
      return other_sharding(facts);
    case Seen::kMeshSize:
      return mesh_size(facts);
    case Seen::kParentFirst:
      return parent_first(facts);
    case Seen::kOtherGroup:
      return other_group(facts);
    case Seen::kOtherValues:
    case Seen::kOtherGradients:
      return left_out(facts);
  }
  return {};
}

}  // namespace

std::string_view reason_of(Seen seen) { return told::reason_of(kSeen, seen); }

void from_json(const Json& json, Branch& branch) {
  Fields(json, "a branch")("at", branch.at)("condition", branch.condition)("leaves", branch.leaves);
}

void from_json(const Json& json, Facts& facts) {
  std::string seen;
  Fields(json, "facts")("seen", seen)("use", facts.use)("cause", facts.cause)("op", facts.op)(
      "operands", facts.operands)("fixes", facts.fixes)("ranks", facts.ranks)("step", facts.step)(
      "subject", facts.subject)("wrapper", facts.wrapper)("device", facts.device)("devices", facts.devices)(
      "expected", facts.expected)("output", facts.output)("names", facts.names)("count", facts.count)(
      "made", facts.made)("branch", facts.branch)("used", facts.used);
  facts.seen = told::kind_named(kSeen, "seen", seen);
}

Facts parse_facts(std::string_view text) { return told::parse<Facts>(text); }

Finding tell(const Facts& facts) {
  Finding finding = told::begin(reason_of(facts.seen), facts.use, facts.op, facts.step);
  if (facts.seen == Seen::kSecondBackward) finding.severity = Severity::kWarning;  // PyTorch says nothing
  Told told = sentences(facts);
  finding.message = std::move(told.message), finding.why = std::move(told.why), finding.notes = std::move(told.notes);
  finding.cause = facts.cause && facts.cause->line > 0 ? *facts.cause : facts.use;
  finding.operands = facts.operands;
  finding.fixes = facts.fixes;
  finding.ranks = facts.ranks;
  if (!facts.operands.empty()) {
    const Operand& odd = facts.operands.front();
    finding.culprit = {odd.name, odd.kind, odd.device, facts.expected, odd.shape, odd.dtype, {}};
  } else if (facts.seen == Seen::kSecondBackward) {
    finding.culprit.name = facts.subject, finding.culprit.kind = Kind::kVariable;
  }
  return finding;
}

std::string condition_words(const Branch& branch) {
  return fmt::format("the `{}` at {}", branch.condition, at(branch.at));
}

std::string way_words(const Branch& branch) {
  return branch.leaves ? fmt::format("after {} has not left early", condition_words(branch))
                       : "under " + condition_words(branch);
}

}  // namespace locus::engine::ranks
