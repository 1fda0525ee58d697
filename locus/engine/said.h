// What a person calls an operator: the word in the program's text, not the one that PyTorch makes of it.
#pragma once

#include <string>
#include <string_view>

namespace locus::engine {

/// "mul()"; "item()", also for print() and `if`, which read a value the same way.
inline std::string said(std::string_view op) {
  return std::string(op == "_local_scalar_dense" || op == "is_nonzero" ? "item" : op) + "()";
}

}  // namespace locus::engine
