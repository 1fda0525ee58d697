// What is particular about an operator in a dry run. Most have nothing: their shape rule is all.
#pragma once

#include <cstdint>
#include <string_view>

namespace locus::bridge::dry {

enum class Kind : std::uint8_t {
  kPlain,
  kReadsValue,    ///< _local_scalar_dense: the host asks for one element
  kEqual,         ///< the host asks whether two tensors are equal
  kNothing,       ///< looks at values to complain of them: a healthy run does not
  kAllFalse,      ///< isnan and its kin: False everywhere in a healthy run
  kAllTrue,       ///< isfinite
  kKeepsUniform,  ///< all zeros give all zeros, all ones all ones
  kAll,           ///< the same; of unknown flags a healthy run would say True: they are asked to be sure
  kNegates,       ///< logical_not
  kAnd,           ///< what is 0 on one side is 0, whatever is on the other
  kOr,            ///< what is True on one side is True
  kTimes,         ///< as kAnd, of integers: 0 times infinity is no 0
  kWhere,         ///< what is not chosen does not matter
  kIndicesOf,     ///< its last result is places along a dimension, of which there are so many
  kFill,          ///< overwrites all of its first operand by one value
  kOverwrites,    ///< overwrites all of its first operand
  kCollective,    ///< every rank takes part in it, whatever it knows
  kDrawsFrom,     ///< draws from a distribution that its operands are the parameters of
  kUnscale,       ///< GradScaler's: changes gradients, finds nothing infinite
  kBatchNorm,     ///< what it saves has no elements in evaluation
  kNonzero,       ///< from here on: the shape of the result hangs on values
  kMaskedSelect,
  kIndex,
  kUnique,
  kUniqueAlong,
  kUniqueConsecutive,
  kBincount,
  kRepeatInterleave,
  kSuppression,      ///< torchvision's non-maximum suppression
  kRefused,          ///< takes unknown values for addresses, and has no shape rule
  kComputedForReal,  ///< the shape rule is wrong or missing: the operator itself has the shape
};

/// By the operator's full name, "aten::nonzero".
Kind kind_of_operator(std::string_view name);

}  // namespace locus::bridge::dry
