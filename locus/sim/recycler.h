// Free lists for objects that come and go with every tensor. Memory is kept until the owner dies; not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace locus::sim::detail {

/// Objects of one type, reused through a free list: the model allocates under its lock, for every tensor.
template <class T>
class Recycler {
 public:
  void* take() {
    if (free_ == nullptr) {
      slabs_.push_back(std::make_unique<Cell[]>(kSlab));
      for (std::size_t i = kSlab; i-- > 0;) give(&slabs_.back()[i]);
    }
    Cell* cell = free_;
    free_ = cell->next;
    return cell;
  }
  void give(void* object) noexcept {
    Cell* cell = static_cast<Cell*>(object);
    cell->next = free_;
    free_ = cell;
  }

 private:
  union Cell {
    Cell* next;
    alignas(T) unsigned char bytes[sizeof(T)];
  };
  static constexpr std::size_t kSlab = 256;
  std::vector<std::unique_ptr<Cell[]>> slabs_;
  Cell* free_ = nullptr;
};

/// Lets the nodes of one std::set come from a Recycler. Nodes never leave their set.
template <class T>
struct NodeAllocator {
  using value_type = T;
  NodeAllocator() : nodes(std::make_shared<Recycler<T>>()) {}
  template <class U>
  explicit NodeAllocator(const NodeAllocator<U>&) : nodes(std::make_shared<Recycler<T>>()) {}
  T* allocate(std::size_t) { return static_cast<T*>(nodes->take()); }
  void deallocate(T* node, std::size_t) noexcept { nodes->give(node); }
  friend bool operator==(const NodeAllocator& a, const NodeAllocator& b) { return a.nodes == b.nodes; }
  std::shared_ptr<Recycler<T>> nodes;
};

}  // namespace locus::sim::detail
