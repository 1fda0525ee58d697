// Vector clocks. A lane is whatever does one thing after another: a stream of a device, a thread of the host, the
// stream of a group's collectives. A lane's clock says, for each lane, up to which time it is known to be done.
#pragma once

#include <cstdint>
#include <vector>

namespace locus::order {

using Lane = std::uint16_t;
using Time = std::uint32_t;  ///< of one lane; moves on when somebody may have learned of it. 0: before everything

class VectorClock {
 public:
  Time at(Lane lane) const noexcept { return lane < times_.size() ? times_[lane] : 0; }
  void set(Lane lane, Time time) {
    if (lane >= times_.size()) times_.resize(std::size_t{lane} + 1);
    times_[lane] = time;
  }
  /// What either knows. Whether that is more than was known before.
  bool join(const VectorClock& other) {
    bool more = false;
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
    for (std::size_t i = 0; i < other.times_.size(); ++i) {
      if (other.times_[i] <= times_[i]) continue;
      times_[i] = other.times_[i];
      more = true;
    }
    return more;
  }
  bool empty() const noexcept { return times_.empty(); }

 private:
  std::vector<Time> times_;
};

}  // namespace locus::order
