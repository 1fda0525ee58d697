// See origins.h. The only file that looks inside the interpreter's frames.
#include "locus/bridge/door/origins.h"

#include <Python.h>
#include <frameobject.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "locus/bridge/state.h"

namespace locus::bridge {
namespace {

// The first fields of the interpreter's frame, by version. check_frame_layout() proves them at start-up.
#if PY_VERSION_HEX >= 0x030D0000
struct Frame {
  PyObject* code;
  Frame* previous;
  PyObject *function, *globals, *builtins, *locals;
  PyFrameObject* object;
  const char* instruction;
};
inline Frame* top_frame(PyThreadState* thread) { return reinterpret_cast<Frame*>(thread->current_frame); }
inline int instruction_of(const Frame* f, PyCodeObject* code) {
  return static_cast<int>(f->instruction - reinterpret_cast<const char*>(code->co_code_adaptive));
}
#define LOCUS_FAST_FRAMES (PY_VERSION_HEX < 0x030E0000)
#elif PY_VERSION_HEX >= 0x030C0000
struct Frame {
  PyObject* code;
  Frame* previous;
  PyObject *function, *globals, *builtins, *locals;
  PyFrameObject* object;
  const char* instruction;
};
inline Frame* top_frame(PyThreadState* thread) { return reinterpret_cast<Frame*>(thread->cframe->current_frame); }
inline int instruction_of(const Frame* f, PyCodeObject* code) {
  return static_cast<int>(f->instruction - reinterpret_cast<const char*>(code->co_code_adaptive));
}
#define LOCUS_FAST_FRAMES 1
#elif PY_VERSION_HEX >= 0x030B0000
struct Frame {
  PyObject *function, *globals, *builtins, *locals;
  PyObject* code;
  PyFrameObject* object;
  Frame* previous;
  const char* instruction;
};
inline Frame* top_frame(PyThreadState* thread) { return reinterpret_cast<Frame*>(thread->cframe->current_frame); }
inline int instruction_of(const Frame* f, PyCodeObject* code) {
  return static_cast<int>(f->instruction - reinterpret_cast<const char*>(code->co_code_adaptive));
}
#define LOCUS_FAST_FRAMES 1
#else
#define LOCUS_FAST_FRAMES 0
#endif

constexpr int kMaxCodes = 1 << 16;
std::array<std::atomic<CodeInfo*>, kMaxCodes> g_codes{};
std::atomic<std::uint32_t> g_code_count{1};
constexpr std::size_t kCodeBuckets = std::size_t{1} << 17;
std::array<std::atomic<std::uint32_t>, kCodeBuckets> g_code_buckets{};
std::mutex g_code_mutex;
std::vector<std::string> g_library_folders;
std::atomic<bool> g_fast_frames{LOCUS_FAST_FRAMES != 0};

std::uint32_t find_code(const void* code) noexcept {
  for (std::size_t slot = engine::mix(reinterpret_cast<std::uintptr_t>(code)) & (kCodeBuckets - 1);;
       slot = (slot + 1) & (kCodeBuckets - 1)) {
    const std::uint32_t number = g_code_buckets[slot].load(std::memory_order_acquire);
    if (number == 0) return 0;
    if (g_codes[number].load(std::memory_order_acquire)->code == code) return number;
  }
}

bool is_user_file(const char* file) {
  if (file[0] == '<' && std::strncmp(file, "<frozen", 7) == 0) return false;
  if (std::strcmp(file, "<shim>") == 0) return false;  // the interpreter's own step into a function, from 3.12 on
  for (const auto& folder : g_library_folders) {
    if (std::strncmp(file, folder.c_str(), folder.size()) == 0) return false;
  }
  return true;
}

/// First sight of a code object: keep it alive and classify it. Takes the GIL.
std::uint32_t add_code(PyCodeObject* code) noexcept {
  PyGILState_STATE gil = PyGILState_Ensure();
  std::uint32_t number = 0;
  {
    std::lock_guard<std::mutex> lock(g_code_mutex);
    number = find_code(code);
    if (number == 0 && g_code_count.load() < kMaxCodes) {
      auto* info = new CodeInfo;
      info->code = code;
      if (const char* file = PyUnicode_AsUTF8(code->co_filename)) info->file = file;
#if PY_VERSION_HEX >= 0x030B0000
      PyObject* title = code->co_qualname;
#else
      PyObject* title = code->co_name;
#endif
      if (const char* name = PyUnicode_AsUTF8(title)) info->function = name;
      PyErr_Clear();
      info->is_user = is_user_file(info->file);
      Py_INCREF(code);
      number = g_code_count.fetch_add(1);
      g_codes[number].store(info, std::memory_order_release);
      std::size_t slot = engine::mix(reinterpret_cast<std::uintptr_t>(code)) & (kCodeBuckets - 1);
      while (g_code_buckets[slot].load() != 0) slot = (slot + 1) & (kCodeBuckets - 1);
      g_code_buckets[slot].store(number, std::memory_order_release);
    }
  }
  PyGILState_Release(gil);
  return number;
}

/// What a thread has looked up lately. Nothing in it ever becomes untrue: code that was seen is kept alive, and numbers
/// keep their meaning.
struct Seen {
  struct Code {
    const void* code;
    std::uint32_t number;
    bool is_user;
  };
  struct Line {
    std::uint32_t code;
    int instruction;
    engine::SiteId site;
  };
  struct Made {
    engine::Origin origin;
    engine::OriginId number = 0;
  };
  std::array<Code, 256> codes{};
  std::array<Line, 512> lines{};
  std::array<Made, 512> origins{};
};
constinit thread_local Seen t_seen;

/// Its number, and whether it is the program's own; number 0 where there is no more room for it.
Seen::Code code_of(Seen& seen, PyCodeObject* code) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(code);
  Seen::Code& entry = seen.codes[(address >> 4 ^ address >> 12) % seen.codes.size()];
  if (entry.code == code) return entry;
  std::uint32_t number = find_code(code);
  if (number == 0) number = add_code(code);
  if (number == 0) return {code, 0, false};
  return entry = {code, number, g_codes[number].load(std::memory_order_acquire)->is_user};
}

engine::SiteId site_of(Seen& seen, std::uint32_t code, int instruction) noexcept {
  Seen::Line& entry = seen.lines[(code * 7 + static_cast<std::uint32_t>(instruction)) % seen.lines.size()];
  if (entry.code == code && entry.instruction == instruction && entry.site != 0) return entry.site;
  const engine::SiteId site = sites().intern({code, instruction});
  entry = {code, instruction, site};
  return site;
}

/// Through the public API: needs the GIL, for interpreters whose frames we don't know.
template <class Visit>
void walk_public(Visit visit) noexcept {
  if (!PyGILState_Check()) return;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  for (bool more = true; frame != nullptr && more;) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const Seen::Code known = code_of(t_seen, code);
    more = visit(known, [&] { return site_of(t_seen, known.number, PyFrame_GetLasti(frame)); });
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
}

/// This thread's frames, innermost first, for as long as visit(code, its site) says true.
template <class Visit>
void walk_frames(Visit visit) noexcept {
#if LOCUS_FAST_FRAMES
  if (g_fast_frames.load(std::memory_order_relaxed)) {
    PyThreadState* thread = PyGILState_GetThisThreadState();
    if (thread == nullptr) return;
#if PY_VERSION_HEX < 0x030D0000
    if (thread->cframe == nullptr) return;
#endif
    Seen& seen = t_seen;
    for (Frame* frame = top_frame(thread); frame != nullptr; frame = frame->previous) {
      if (frame->code == nullptr || !PyCode_Check(frame->code)) continue;  // 3.12's and 3.13's entry frames
      auto* code = reinterpret_cast<PyCodeObject*>(frame->code);
      const Seen::Code known = code_of(seen, code);
      if (!visit(known, [&] { return site_of(seen, known.number, instruction_of(frame, code)); })) return;
    }
    return;
  }
#endif
  walk_public(visit);
}

std::mutex g_operator_mutex;
std::unordered_map<std::string, engine::OperatorId>& operator_numbers() {
  static auto* map = new std::unordered_map<std::string, engine::OperatorId>;
  return *map;
}
std::array<std::atomic<const char*>, 1 << 16> g_operator_names{};

}  // namespace

constinit thread_local engine::OperatorId t_operator = 0;
constinit thread_local engine::SiteId t_site = 0;

engine::SiteTable* const g_sites = new engine::SiteTable;  // for good: memory may be labeled to the very end
engine::OriginTable* const g_origins = new engine::OriginTable;

engine::OriginId number_of(const engine::Origin& origin) noexcept {
  Seen& seen = t_seen;
  auto& known = seen.origins[(origin.site * 31 + origin.op + origin.parent * 7) % seen.origins.size()];
  if (known.number != 0 && known.origin == origin) return known.number;
  const engine::OriginId number = engine::intern_bounded(origins(), origin);
  known = {origin, number};
  return number;
}

void set_library_folders(const char* const* folders, int count) { g_library_folders.assign(folders, folders + count); }

engine::SiteId user_site() noexcept {
  engine::SiteId found = 0;
  walk_frames([&found](const Seen::Code& code, auto site) {
    if (code.is_user) found = site();
    return !code.is_user;
  });
  return found;
}

std::size_t all_sites(std::span<engine::SiteId> into) noexcept {
  std::size_t count = 0;
  walk_frames([&](const Seen::Code& code, auto site) {
    if (code.number != 0 && count < into.size()) into[count++] = site();
    return count < into.size();
  });
  return count;
}

void check_frame_layout() {
#if LOCUS_FAST_FRAMES
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  if (frame == nullptr) return;
  PyCodeObject* code = PyFrame_GetCode(frame);
  const int offset = PyFrame_GetLasti(frame);
  Frame* top = top_frame(PyThreadState_Get());
  while (top != nullptr && (top->code == nullptr || !PyCode_Check(top->code))) top = top->previous;
  const bool same =
      top != nullptr && top->code == reinterpret_cast<PyObject*>(code) && instruction_of(top, code) == offset;
  Py_DECREF(code);
  Py_DECREF(frame);
  g_fast_frames.store(same);
#endif
}

const CodeInfo* code_info(std::uint32_t number) noexcept {
  return number != 0 && number < g_code_count.load() ? g_codes[number].load(std::memory_order_acquire) : nullptr;
}

Place place_of(engine::SiteId id) noexcept {
  if (id == 0) return {};
  const engine::Site site = sites().at(id);
  const CodeInfo* info = code_info(site.code);
  if (info == nullptr) return {};
  return {info->file, info->function, PyCode_Addr2Line(static_cast<PyCodeObject*>(info->code), site.instruction)};
}

engine::SiteId label_new_memory(void* host, std::size_t bytes) noexcept {
  engine::Origin origin;
  origin.op = t_operator;
  origin.site = t_site != 0 ? t_site : user_site();
  origin.device = static_cast<std::int8_t>(machine().arena().device_of(host));
  const std::uint64_t shown = bytes < 0xffffffff ? bytes : 0xffffffff;
  machine().arena().set_label(host, (shown << 32) | origins().intern(origin));
  return origin.site;
}

engine::OperatorId operator_number(const std::string& name) {
  std::lock_guard<std::mutex> lock(g_operator_mutex);
  auto [entry, fresh] =
      operator_numbers().emplace(name, static_cast<engine::OperatorId>(operator_numbers().size() + 1));
  if (fresh) g_operator_names[entry->second].store(entry->first.c_str(), std::memory_order_release);
  return entry->second;
}

const char* operator_name(engine::OperatorId number) noexcept {
  const char* name = g_operator_names[number].load(std::memory_order_acquire);
  return name == nullptr ? "" : name;
}

}  // namespace locus::bridge
