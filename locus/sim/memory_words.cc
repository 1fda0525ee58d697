// Counters and words of the caching model: how PyTorch counts, writes sizes and says that memory has run out.
// No decisions here; those are in caching_model.cc.
#include <algorithm>
#include <cstdio>

#include "locus/sim/caching_model.h"

namespace locus::sim {

void Stat::increase(std::int64_t amount) {
  current += amount;
  peak = std::max(peak, current);
  allocated += amount;
}

void Stat::decrease(std::int64_t amount) {
  current -= amount;
  freed += amount;
}

void Stat::reset_accumulated() { allocated = freed = 0; }

void Stat::reset_peak() { peak = current; }

std::string format_bytes(std::size_t bytes) {
  // A full unit is still written in the unit below ("1024.00 MiB"); that is PyTorch's way.
  if (bytes <= 1024) return std::to_string(bytes) + " bytes";
  const char* unit = "KiB";
  double scale = 1024.0;
  if (bytes > std::size_t{1} << 30) {
    unit = "GiB", scale = 1024.0 * 1024.0 * 1024.0;
  } else if (bytes > std::size_t{1} << 20) {
    unit = "MiB", scale = 1024.0 * 1024.0;
  }
  char text[48];
  std::snprintf(text, sizeof text, "%.2f %s", static_cast<double>(bytes) / scale, unit);
  return text;
}

std::string out_of_memory_message(const OutOfMemory& what) {
  if (what.requested >= std::size_t{1} << 60) return "CUDA out of memory. Tried to allocate more than 1EB memory.";
  std::string text =
      "CUDA out of memory. Tried to allocate " + format_bytes(what.requested) + ". GPU " + std::to_string(what.device) +
      " has a total capacity of " + format_bytes(what.capacity) + " of which " + format_bytes(what.free) +
      " is free. Including non-PyTorch memory, this process has " + format_bytes(what.reserved) + " memory in use. ";
  if (what.limit != 0) text += format_bytes(what.limit) + " allowed; ";
  text += "Of the allocated memory " + format_bytes(what.allocated) + " is allocated by PyTorch, and " +
          format_bytes(what.reserved - std::min(what.allocated, what.reserved)) +
          " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
          "Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
          "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
  return text;
}

}  // namespace locus::sim
