// Two accesses that nothing orders, as facts, and the finding with its sentences that they come to. Found by
// locus/order; names and edits come from Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/finding.h"

namespace locus::engine::races {

/// What is wrong with the order. (name, its name in JSON, the finding's reason)
// clang-format off
#define LOCUS_RACE(each)                                          \
  each(kRead, "read", "read-too-early")                           \
  each(kOverwritten, "overwritten", "overwritten-too-early")      \
  each(kFreed, "freed", "freed-too-early")                        \
  each(kNeverWaited, "never-waited", "never-waited")
// clang-format on

enum class Kind : std::uint8_t {
#define LOCUS_NAME(name, text, reason) name,
  LOCUS_RACE(LOCUS_NAME)
#undef LOCUS_NAME
};

/// One of the two.
struct Side {
  Location at;
  std::string op;
  std::string stream;  ///< "the stream `side`", "the default stream of cuda:0", "the host"
  bool writes = false;
};

struct Facts {
  Kind kind = Kind::kRead;
  Side first, second;  ///< in the order of the program's calls
  Location cause;      ///< where a wait is missing; unknown: the second
  std::vector<Operand> operands;
  std::string name;  ///< what the program calls the memory, where no operand does
  std::vector<Fix> fixes;
  std::int64_t step = 0;
  std::string wait;  ///< what would order them: "torch.cuda.current_stream().wait_stream(side)"
  bool in_backward = false;
};

std::string_view reason_of(Kind kind);
void from_json(const Json& json, Side& side);
void from_json(const Json& json, Facts& facts);
/// Facts as JSON. Throws FormatError.
Facts parse_facts(std::string_view text);

Finding tell(const Facts& facts);

}  // namespace locus::engine::races
