// See mailbox.h.
#include "locus/engine/ranks/mailbox.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "locus/engine/ranks/call.h"

namespace locus::engine::ranks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAtOnce{20};  // a wait that is shorter is no wait
constexpr std::chrono::seconds kRing{2};          // how long a ring of waits must last before it is believed
constexpr int kLongestChain = 4096;

std::string ended_path(const std::string& folder, int rank) { return fmt::format("{}/ended-{}", folder, rank); }
std::string stands_path(const std::string& folder, int rank) { return fmt::format("{}/stands-{}", folder, rank); }
std::string waits_path(const std::string& folder, int rank) { return fmt::format("{}/waits-{}", folder, rank); }

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Whole or not at all: the file takes its name when it is written.
void write_file(const std::string& path, std::string_view content) {
  const std::string fresh = fmt::format("{}.{}", path, ::getpid());
  {
    std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!file) return;
  }
  std::rename(fresh.c_str(), path.c_str());
}

/// The rank that is written in a file; -1: none.
int read_rank(const std::string& path) {
  const std::optional<std::string> text = read_file(path);
  if (!text || text->empty() || text->size() > 9) return -1;
  if (!std::all_of(text->begin(), text->end(), [](char c) { return c >= '0' && c <= '9'; })) return -1;
  return std::stoi(*text);
}

/// Who does what a rank would do: itself, unless another one stands for it.
int doer(const std::string& folder, int rank) {
  const int other = read_rank(stands_path(folder, rank));
  return other >= 0 ? other : rank;
}

/// While it is there, others see for whom this rank waits.
class Waiting {
 public:
  Waiting(std::string path, int sender) : path_(std::move(path)) { write_file(path_, std::to_string(sender)); }
  ~Waiting() { ::unlink(path_.c_str()); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::string path_;
};

}  // namespace

Mailbox::Mailbox(std::string folder, int rank, std::vector<int> running, bool open)
    : folder_(std::move(folder)), rank_(rank), running_(std::move(running)), open_(open) {}

std::string Mailbox::path_of(std::string_view key) const {
  return fmt::format("{}/mail-{:016x}", folder_, key_of(key));
}

void Mailbox::put(std::string_view key, std::string_view message, std::string_view like) const {
  write_file(path_of(key), message);
  if (!like.empty()) write_file(path_of(like), message);
}

void Mailbox::say_ended(const std::string& folder, int rank) { write_file(ended_path(folder, rank), ""); }

int Mailbox::waits_for(const std::string& folder, int rank) { return read_rank(waits_path(folder, rank)); }

void Mailbox::say_stands_for(const std::string& folder, int rank, int other) {
  write_file(stands_path(folder, other), std::to_string(rank));
}

bool Mailbox::runs(int rank, bool on_demand) const {
  return (open_ && on_demand) || std::find(running_.begin(), running_.end(), rank) != running_.end();
}

bool Mailbox::leads_back(int sender) const {
  for (int steps = 0; steps < kLongestChain && sender >= 0; ++steps) {
    if (sender == rank_) return true;
    const int wanted = waits_for(folder_, sender);
    sender = wanted >= 0 ? doer(folder_, wanted) : -1;
  }
  return false;
}

bool Mailbox::is_stood_for(int rank) const { return doer(folder_, rank) != rank; }

std::optional<std::string> Mailbox::take(std::string_view key, int sender, bool on_demand,
                                         std::chrono::milliseconds limit, std::string_view like) const {
  const std::string path = path_of(key);
  if (std::optional<std::string> message = read_file(path)) return message;
  if (!runs(sender, on_demand)) return std::nullopt;
  const Clock::time_point began = Clock::now();
  std::optional<Waiting> waiting;
  std::optional<Clock::time_point> in_ring;
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    const int from = like.empty() ? sender : doer(folder_, sender);
    const bool ended = std::filesystem::exists(ended_path(folder_, from));  // asked first: what it put is there then
    if (std::optional<std::string> message = read_file(path)) return message;
    if (from != sender) {
      if (std::optional<std::string> message = read_file(path_of(like))) return message;
    }
    const Clock::time_point now = Clock::now();
    if (ended || now - began > limit) return std::nullopt;
    if (!waiting && now - began > kAtOnce) waiting.emplace(waits_path(folder_, rank_), sender);
    if (!waiting || !leads_back(from)) {
      in_ring.reset();
    } else if (!in_ring) {
      in_ring = now;
    } else if (now - *in_ring > kRing) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace locus::engine::ranks
