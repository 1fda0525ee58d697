// The sentences of findings about how a model is sharded. What was seen: seen.h.
#pragma once

#include <string>
#include <vector>

#include "locus/engine/ranks/seen.h"

namespace locus::engine::ranks {

/// The sentences of one finding.
struct Told {
  std::string message, why;
  std::vector<std::string> notes;
};

/// A DTensor and a plain tensor in one call; `subject` is the model whose parameters they are, `wrapper` the class of
/// the optimizer that makes the call. `devices` says of each DTensor how it is placed.
Told mixed_tensors(const Facts& facts);
/// A state dict that is spread in another way than the model.
Told other_sharding(const Facts& facts);
/// A mesh that is larger than the job.
Told mesh_size(const Facts& facts);
/// fully_shard() of a module after that of one around it.
Told parent_first(const Facts& facts);
/// Parameters that a tensor-parallel plan has left out, and that are not the same on all ranks.
Told left_out(const Facts& facts);

}  // namespace locus::engine::ranks
