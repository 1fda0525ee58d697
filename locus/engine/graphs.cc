// See graphs.h.
#include "locus/engine/graphs.h"

#include <fmt/format.h>

#include "locus/engine/json_fields.h"
#include "locus/engine/said.h"
#include "locus/engine/told_facts.h"

namespace locus::engine::graphs {
namespace {

using fields::Fields;

constexpr told::KindInfo<What> kWhats[] = {
#define LOCUS_INFO(name, text, reason) {What::name, text, reason},
    LOCUS_GRAPH_MISTAKE(LOCUS_INFO)
#undef LOCUS_INFO
};

/// Whether the card's words are about this.
bool is_about(const Facts& facts, std::string_view word) { return facts.words.find(word) != std::string::npos; }

/// A library of CUDA's that is not there yet: in the words of cuBLAS, cuSOLVER and cuFFT.
bool sets_library_up(const Facts& facts) {
  return is_about(facts, "Create(handle)") || is_about(facts, "CUFFT_INTERNAL_ERROR");
}

std::string message_of(const Facts& facts) {
  switch (facts.what) {
    case What::kRefused:
      return fmt::format("{}{} in the capture of a CUDA graph: {}", said(facts.op),
                         facts.in_backward ? " of its backward pass" : "", facts.words);
    case What::kFreed:
      return fmt::format("the graph {} memory of a tensor that has been freed", facts.words);
    case What::kMoved:
      return fmt::format("the graph {} memory that its tensor no longer has", facts.words);
    case What::kFrozen:
      return fmt::format("{} was changed after the capture; the graph goes on with the old value", facts.op);
    case What::kKept:
      if (facts.words.empty()) {
        return fmt::format("`{}` is read after another replay of its CUDA graph has overwritten it", facts.op);
      }
      return fmt::format("`{}` keeps the result of a CUDA graph {} times over: each replay has overwritten them all",
                         facts.op, facts.words);
    case What::kBound:
      return fmt::format("new data is bound to `{}`, and the graph goes on reading {}", facts.op,
                         facts.words == "gone" ? "memory of the old one, which has been freed" : "the old one");
    case What::kSaved:
      return "backward() of a call of a graphed callable comes after a later call has overwritten what it saved";
  }
  return "";
}

std::string why_of(const Facts& facts) {
  switch (facts.what) {
    case What::kRefused:
      if (is_about(facts, "generator")) return "a graph draws from the default generator and from those it was told of";
      if (is_about(facts, "unjoined"))
        return "a stream that took part in the capture goes on where the capture has ended";
      if (sets_library_up(facts)) {
        return "the first call that needs it sets the library up, for this thread and device; that takes memory, which "
               "a capture does not allow";
      }
      return "a capture records kernels and runs none: nothing can be waited for, and no value is there to be read";
    case What::kFreed:
      return fmt::format(
          "{}() at {} {} it in the capture; nothing in the program holds the tensor any more, so that the allocator "
          "may "
          "give the memory to another one",
          facts.op, told::at(facts.first), facts.words);
    case What::kMoved:
      return fmt::format("{}() at {} {} it in the capture; the tensor was resized or given other memory since",
                         facts.op, told::at(facts.first), facts.words);
    case What::kFrozen:
      return fmt::format("a number of the host's is part of the captured kernels: {}", facts.words);
    case What::kKept:
      return fmt::format(
          "a replay writes its results where the one before has written them; what was kept at {} is that memory, and "
          "has the newest values by now",
          told::at(facts.first));
    case What::kBound:
      return fmt::format(
          "a graph reads the memory that it was captured with; the tensor that is bound at {} has memory "
          "of its own",
          told::at(facts.first));
    case What::kSaved:
      return fmt::format(
          "a graphed callable saves what backward() needs in the same memory each time; the call at {} was followed by "
          "the one at {}, with other data, and gets the gradients of that one",
          told::at(facts.first), facts.words);
  }
  return "";
}

std::string note_of(const Facts& facts) {
  switch (facts.what) {
    case What::kRefused:
      if (is_about(facts, "generator")) return "graph.register_generator_state(generator), before the capture";
      if (is_about(facts, "unjoined")) return "let the captured stream wait for it: current_stream().wait_stream(side)";
      if (sets_library_up(facts)) {
        return facts.in_backward
                   ? "call backward() once before the capture: its products are those of another thread"
                   : "run what is captured once before the capture, in the same thread; with backward(), if it has one";
      }
      return "move it out of the capture, or keep the value on the device";
    case What::kFrozen:
      if (facts.op.find("param_groups") == std::string::npos) {
        return "make it a tensor on the device and change that in place, or capture again";
      }
      return "make it a tensor on the device (lr=torch.tensor(…), capturable=True) and change that in place";
    case What::kKept:
      return "keep a copy of the result: .clone()";
    case What::kSaved:
      return "call backward() before the next call; or make a callable for each call of a step: "
             "make_graphed_callables((one, other), …)";
    case What::kBound:
      return fmt::format("copy the data into the tensor that was captured: {}.copy_(…)", facts.op);
    default:
      return "keep the tensor, and put new data into it: static.copy_(batch)";
  }
}

}  // namespace

void from_json(const Json& json, Facts& facts) {
  std::string what;
  Fields(json, "facts")("what", what)("use", facts.use)("first", facts.first)("op", facts.op)("words", facts.words)(
      "fixes", facts.fixes)("step", facts.step)("in_backward", facts.in_backward);
  facts.what = told::kind_named(kWhats, "what", what);
}

Facts parse_facts(std::string_view text) { return told::parse<Facts>(text); }

Finding tell(const Facts& facts) {
  Finding finding = told::begin(told::reason_of(kWhats, facts.what), facts.use, facts.op, facts.step);
  finding.message = message_of(facts), finding.why = why_of(facts);
  finding.cause =
      facts.what == What::kKept || facts.what == What::kBound || facts.what == What::kSaved ? facts.first : facts.use;
  finding.fixes = facts.fixes;
  finding.notes.push_back(note_of(facts));
  return finding;
}

}  // namespace locus::engine::graphs
