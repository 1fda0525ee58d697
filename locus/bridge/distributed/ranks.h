// One call of a process group on its way to whoever compares the ranks.
#pragma once

#include "locus/engine/ranks/call.h"

namespace locus::bridge {

struct RankCall {
  engine::ranks::Call call;
  int size = 0;  ///< of its group
  int tag = 0;   ///< of a send or recv
};

}  // namespace locus::bridge
