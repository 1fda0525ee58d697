// Which line of the program is running now, and what made a piece of memory. The capture walks the
// calling thread's own Python frames and needs neither the GIL nor a lock, except the first time a
// piece of code is seen.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "locus/bridge/state.h"
#include "locus/engine/origin.h"

namespace locus::bridge {

/// One Python code object that was seen on a stack. Kept alive for good: sites refer to it.
struct CodeInfo {
  void* code = nullptr;  ///< PyCodeObject*
  const char* file = "";
  const char* function = "";
  bool is_user = false;  ///< not PyTorch's, not Locus's, not the interpreter's own
};

extern engine::SiteTable* const g_sites;
extern engine::OriginTable* const g_origins;
inline engine::SiteTable& sites() { return *g_sites; }
inline engine::OriginTable& origins() { return *g_origins; }
/// The number of an origin, its history cut where it gets too long. What this thread had lately is at hand.
engine::OriginId number_of(const engine::Origin& origin) noexcept;

/// The innermost line of the program itself (not of PyTorch) on this thread; 0 where there is none.
engine::SiteId user_site() noexcept;
/// All lines that this thread is at, PyTorch's too, innermost first, as many as there is room for; how many.
std::size_t all_sites(std::span<engine::SiteId> into) noexcept;
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

/// Remembers who made this device memory: operator in force, user's line, which is returned.
engine::SiteId label_new_memory(void* host, std::size_t bytes) noexcept;
/// A chunk's label holds its origin and, above it, the bytes that were asked for (at most 4 GiB less one).
constexpr engine::OriginId origin_in(std::uint64_t label) { return static_cast<engine::OriginId>(label); }
constexpr std::size_t bytes_in(std::uint64_t label) { return label >> 32; }
constexpr std::uint64_t with_origin(std::uint64_t label, engine::OriginId origin) {
  return (label & ~std::uint64_t{0xffffffff}) | origin;
}
/// The user's line that the check door has found for the call in progress on this thread; 0: not looked up.
extern constinit thread_local engine::SiteId t_site;
/// Operator that the calling thread's kernel belongs to, as a number of operator_name().
extern constinit thread_local engine::OperatorId t_operator;
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
