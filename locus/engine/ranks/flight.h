// What each rank has called, where every other rank of its job can read it: a mapped file of fixed size for each.
//
// A slot holds one call, found by group (or by sender and receiver) and number, so that comparing a call with another
// rank's costs one look. The file outlives its process, however that ends; whatever is in it, reading it is safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/ranks/call.h"

namespace locus::engine::ranks {

/// One process's file: written by the process itself, one thread at a time; read by the others.
class Flight {
 public:
  enum class State : std::uint32_t { kRunning, kEnded };

  /// The call in which a rank can do nothing but wait.
  struct Waiting {
    double since = 0;  ///< on the clock of now(); 0: it waits for nothing
    Key key = 0;
    Number number = 0;
  };
  struct Status {
    State state = State::kRunning;
    Waiting waiting;
  };

  static constexpr std::size_t kSlots = 1024, kSlotBytes = 1024, kGroups = 256, kHeaderBytes = 256 + kGroups * 16;
  static constexpr std::size_t kFileBytes = kHeaderBytes + kSlots * kSlotBytes;

  /// A new file, which takes its name when it is whole. Throws std::system_error.
  static std::unique_ptr<Flight> create(const std::string& path, pid_t pid, int rank, int world);
  /// Another process's file; null where it is none.
  static std::unique_ptr<Flight> open(const std::string& path);
  /// Puts what a rank of another host has called where the ranks of this one look, in the place of what was known of
  /// it: the bytes of its file, and how far this host's clock is ahead of that one's. False where that is no such file.
  static bool bring(const std::string& path, std::string_view bytes, double ahead);
  ~Flight();
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  /// 0: of another host, where the numbers of processes are others.
  pid_t pid() const;
  int rank() const;
  int world() const;

  void set_status(const Status& status);
  Status status() const;

  void write(const Call& call);
  /// The call with that number in a group, where the rank has made it and not many more since.
  std::optional<Call> read(Key key, Number number) const;
  /// Whether the rank has made the call with that number, be it long ago.
  bool has_come(Key key, Number number) const;
  /// The highest number of each group.
  std::map<Key, Number> last() const;

 private:
  explicit Flight(std::uint64_t* words) : words_(words) {}
  static std::unique_ptr<Flight> map(const std::string& path, bool to_write);
  std::uint64_t load(std::size_t word) const;
  void store(std::size_t word, std::uint64_t value);
  /// Where a group's highest number is kept; nothing when there are more groups than places.
  std::optional<std::size_t> last_of(Key key) const;

  std::uint64_t* words_;
};

inline constexpr char kStopped = 'T', kZombie = 'Z', kGone = '-', kUnknown = '?';
/// As /proc has it: 'R', 'S', …, or one of these.
char process_state(pid_t pid);
/// Seconds; the same clock in all processes of the machine.
double now();

std::string flight_path(const std::string& folder, const std::string& job, pid_t pid);
/// Every set of ranks that has met in a check: a program may start several, one after the other.
std::vector<std::string> jobs_in(const std::string& folder);
/// The paths of the files of a job, in order.
std::vector<std::string> flights_in(const std::string& folder, const std::string& job);

}  // namespace locus::engine::ranks
