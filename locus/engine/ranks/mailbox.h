// What ranks that run without the rest of their world tell each other: small messages, each a file in a folder that all
// of them see. They may run at the same time or one after the other; a wait ends when it can't be answered any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace locus::engine::ranks {

class Mailbox {
 public:
  /// `running`: the ranks that run, or will; with `open`, any rank that somebody waits for is started as well.
  Mailbox(std::string folder, int rank, std::vector<int> running, bool open);

  /// Leaves a message; one of a key is all there is. Also under the name that all messages like it have, if any.
  void put(std::string_view key, std::string_view message, std::string_view like = {}) const;
  /// The message that `sender` has put or will put there. None where it does not run, has ended without, or is itself
  /// held up by this rank. `on_demand`: the sender may be started for it; where another rank stands for it, that one's
  /// message is taken, which has the name `like`.
  std::optional<std::string> take(std::string_view key, int sender, bool on_demand, std::chrono::milliseconds limit,
                                  std::string_view like = {}) const;
  /// Whether another rank does what this one would.
  bool is_stood_for(int rank) const;

  /// Whoever starts the ranks says that one has ended.
  static void say_ended(const std::string& folder, int rank);
  /// And that another one stands for a rank that does not run.
  static void say_stands_for(const std::string& folder, int rank, int other);
  /// For whom a rank waits; -1: for nobody.
  static int waits_for(const std::string& folder, int rank);

 private:
  std::string path_of(std::string_view key) const;
  bool runs(int rank, bool on_demand) const;
  bool leads_back(int sender) const;

  std::string folder_;
  int rank_;
  std::vector<int> running_;
  bool open_;
};

}  // namespace locus::engine::ranks
