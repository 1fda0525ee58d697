// An object of PyTorch's that has no data, but for some of its functions: the same virtual table with those replaced.
// Its class has other functions from version to version; a table is copied whatever it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace locus::bridge {

template <class Interface>
class Patched {
 public:
  /// Becomes what `known` is.
  void copy(const Interface* known) {
    const auto* table = *reinterpret_cast<const Entry* const*>(known);
    std::memcpy(entries_, table - kBefore, sizeof entries_);
    table_ = entries_ + kBefore;
  }
  /// Puts `function`, whose first argument is the object, in the place of a virtual one; what was there.
  template <class Function, class Method>
  Function replace(Method method, Function function) {
    std::uintptr_t offset = 0;  // how the C++ ABI writes a pointer to a virtual function; a lowest bit marks it as such
    std::memcpy(&offset, &method, sizeof offset);
    Entry& entry = entries_[kBefore + offset / sizeof(Entry)];
    const auto before = reinterpret_cast<Function>(const_cast<void*>(entry));
    entry = reinterpret_cast<Entry>(function);
    return before;
  }
  const Interface* get() const { return reinterpret_cast<const Interface*>(this); }

 private:
  using Entry = const void*;
  static constexpr std::size_t kBefore = 2;    // the offset and the type's description
  static constexpr std::size_t kEntries = 48;  // PyTorch 2.13 has 38 in its largest that is asked for

  const Entry* table_ = nullptr;  // where an object's pointer to its virtual table is
  Entry entries_[kEntries];
};

}  // namespace locus::bridge
