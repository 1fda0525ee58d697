// Which line of the program is running now, and what made a piece of memory. The capture walks the
// calling thread's own Python frames and needs neither the GIL nor a lock, except the first time a
// piece of code is seen.
#pragma once

#include <cstdint>
#include <string>

#include "locus/engine/origin.h"

namespace locus::bridge {

/// One Python code object that was seen on a stack. Kept alive for good: sites refer to it.
struct CodeInfo {
  void* code = nullptr;        ///< PyCodeObject*
  const char* file = "";
  const char* function = "";
  bool is_user = false;        ///< not PyTorch's, not Locus's, not the interpreter's own
};

engine::SiteTable& sites();
engine::OriginTable& origins();

/// The innermost line of the program itself (not of PyTorch) on this thread; 0 where there is none.
engine::SiteId user_site() noexcept;
/// Tells which folders hold code that is not the program's: PyTorch, Locus, the standard library.
void set_library_folders(const char* const* folders, int count);
/// Compares the frame layout used by user_site() with Python's public one; falls back for good on a difference.
void check_frame_layout();

/// File, line and function of a site. Does not need the GIL; async-signal-safe once the code was seen.
struct Place {
  const char* file = nullptr;
  const char* function = nullptr;
  int line = 0;
};
Place place_of(engine::SiteId site) noexcept;
const CodeInfo* code_info(std::uint32_t number) noexcept;

/// Remembers who made this device memory: operator in force, user's line.
void label_new_memory(void* host) noexcept;
/// Operator that the calling thread's kernel belongs to, as a number of operator_name().
extern thread_local engine::OperatorId t_operator;
class OperatorScope {
 public:
  explicit OperatorScope(engine::OperatorId number) : outer_(t_operator) { t_operator = number; }
  ~OperatorScope() { t_operator = outer_; }
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  engine::OperatorId outer_;
};
engine::OperatorId operator_number(const std::string& name);
const char* operator_name(engine::OperatorId number) noexcept;

}  // namespace locus::bridge
