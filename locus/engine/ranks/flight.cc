// See flight.h. The file is read and written as 64-bit words. Where several belong together, a version stands before
// them, odd while they are written: words are stored with release and loaded with acquire, so that whoever has seen one
// new word sees the new version, too.
#include "locus/engine/ranks/flight.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

namespace locus::engine::ranks {
namespace {

constexpr std::uint64_t kMagic = 0x3350'5250'434f'4c00;  // "LOC", and the version of this layout
constexpr std::string_view kEnding = ".calls";
constexpr int kTries = 64;  // of reading what is just being written; who was killed while writing never ends it

// Words of the header.
constexpr std::size_t kMagicWord = 0, kProcessWord = 1, kRankWord = 2, kWorldWord = 3, kStatusVersion = 4,
                      kStateWord = 5, kSinceWord = 6, kKeyWord = 7, kNumberWord = 8, kLastWords = 32;
// Words of a slot.
constexpr std::size_t kVersion = 0, kKey = 1, kNumber = 2, kLength = 3, kSum = 4, kText = 5;
constexpr std::size_t kTextBytes = Flight::kSlotBytes - kText * 8;

std::size_t slot_of(Key key, Number number) {
  return (Flight::kHeaderBytes + (key * 31 + number) % Flight::kSlots * Flight::kSlotBytes) / 8;
}

[[noreturn]] void fail(const std::string& path) { throw std::system_error(errno, std::generic_category(), path); }

Json encode(const Location& at) {
  return Json::array({at.file, at.line, at.column, at.end_line, at.end_column, at.function});
}

Location decode_location(const Json& json) {
  Location at;
  if (json.size() != 6) return at;
  json[0].get_to(at.file), json[1].get_to(at.line), json[2].get_to(at.column);
  json[3].get_to(at.end_line), json[4].get_to(at.end_column), json[5].get_to(at.function);
  return at;
}

std::string encode(const Call& call, bool with_members, bool with_callers, bool with_place) {
  Json callers = Json::array(), feed = Json::array();
  for (const Location& at : with_callers ? call.callers : std::vector<Location>()) callers.push_back(encode(at));
  if (call.feed) {
    Json taken = Json::array();
    for (const Location& at : call.feed->taken) taken.push_back({at.file, at.line});
    feed = {call.feed->given, call.feed->of, call.feed->samples, call.feed->sampler, std::move(taken)};
  }
  const Json json =
      Json::array({call.group, call.name, call.shape, call.dtype, call.elements, call.root, call.reduction,
                   with_place ? encode(call.place) : Json::array(), with_members ? call.members : std::vector<int>(),
                   std::move(callers), std::move(feed)});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The call as text that fits a slot: without what is only told, where it is too long for all of it.
std::string encode(const Call& call) {
  std::string text = encode(call, true, true, true);
  if (text.size() > kTextBytes) text = encode(call, true, false, true);
  if (text.size() > kTextBytes) text = encode(call, false, false, true);
  if (text.size() > kTextBytes) text = encode(call, false, false, false);
  return text.size() > kTextBytes ? "" : text;
}

std::optional<Call> decode(const std::string& text, Number number) {
  Call call;
  call.number = number;
  try {
    const Json json = Json::parse(text);
    if (!json.is_array() || json.size() != 11) return std::nullopt;
    json[0].get_to(call.group), json[1].get_to(call.name), json[2].get_to(call.shape), json[3].get_to(call.dtype);
    json[4].get_to(call.elements), json[5].get_to(call.root), json[6].get_to(call.reduction);
    call.place = decode_location(json[7]);
    json[8].get_to(call.members);
    for (const Json& caller : json[9]) call.callers.push_back(decode_location(caller));
    if (const Json& feed = json[10]; feed.size() == 5) {
      call.feed.emplace();
      feed[0].get_to(call.feed->given), feed[1].get_to(call.feed->of), feed[2].get_to(call.feed->samples);
      feed[3].get_to(call.feed->sampler);
      for (const Json& place : feed[4]) {
        Location& at = call.feed->taken.emplace_back();
        place.at(0).get_to(at.file), place.at(1).get_to(at.line);
      }
    }
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  return call;
}

int open_for_good(const char* path, int flags, mode_t mode = 0) {
  int descriptor;
  do {
    descriptor = ::open(path, flags | O_NOFOLLOW | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

}  // namespace

std::unique_ptr<Flight> Flight::create(const std::string& path, pid_t pid, int rank, int world) {
  const std::string unfinished = path + "~";
  const int descriptor = open_for_good(unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (descriptor < 0) fail(unfinished);
  void* memory = MAP_FAILED;
  if (::fchmod(descriptor, 0600) == 0 && ::ftruncate(descriptor, kFileBytes) == 0)
    memory = ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (memory == MAP_FAILED) {
    ::unlink(unfinished.c_str());
    errno = error;
    fail(unfinished);
  }
  std::unique_ptr<Flight> flight(new Flight(static_cast<std::uint64_t*>(memory)));
  flight->store(kProcessWord, static_cast<std::uint64_t>(pid));
  flight->store(kRankWord, static_cast<std::uint64_t>(static_cast<std::int64_t>(rank)));
  flight->store(kWorldWord, static_cast<std::uint64_t>(static_cast<std::int64_t>(world)));
  flight->store(kMagicWord, kMagic);
  if (::rename(unfinished.c_str(), path.c_str()) != 0) {
    ::unlink(unfinished.c_str());
    fail(path);
  }
  return flight;
}

std::unique_ptr<Flight> Flight::open(const std::string& path) { return map(path, false); }

std::unique_ptr<Flight> Flight::map(const std::string& path, bool to_write) {
  const int descriptor = open_for_good(path.c_str(), to_write ? O_RDWR : O_RDONLY);
  if (descriptor < 0) return nullptr;
  struct stat found = {};
  void* memory = MAP_FAILED;
  // A file that is too short would end the process that reads it.
  if (::fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == kFileBytes)
    memory = ::mmap(nullptr, kFileBytes, to_write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<Flight> flight(new Flight(static_cast<std::uint64_t*>(memory)));
  if (flight->load(kMagicWord) != kMagic || flight->rank() < 0 || flight->pid() < 0) return nullptr;
  return flight;
}

bool Flight::bring(const std::string& path, std::string_view bytes, double ahead) {
  if (bytes.size() != kFileBytes) return false;
  std::vector<std::uint64_t> words(kFileBytes / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  const auto rank = static_cast<int>(words[kRankWord]);
  if (words[kMagicWord] != kMagic || rank < 0) return false;
  words[kProcessWord] = 0;
  words[kStatusVersion] += words[kStatusVersion] % 2;  // it was copied while the rank wrote; nobody writes here
  if (const auto since = std::bit_cast<double>(words[kSinceWord]); since != 0)
    words[kSinceWord] = std::bit_cast<std::uint64_t>(since + ahead);
  std::unique_ptr<Flight> flight = map(path, true);
  if (flight == nullptr) flight = create(path, 0, rank, static_cast<int>(words[kWorldWord]));
  for (std::size_t word = 0; word < words.size(); ++word) {
    if (flight->load(word) != words[word]) flight->store(word, words[word]);
  }
  return true;
}

Flight::~Flight() { ::munmap(words_, kFileBytes); }

std::uint64_t Flight::load(std::size_t word) const {
  return std::atomic_ref(words_[word]).load(std::memory_order_acquire);
}

void Flight::store(std::size_t word, std::uint64_t value) {
  std::atomic_ref(words_[word]).store(value, std::memory_order_release);
}

pid_t Flight::pid() const { return static_cast<pid_t>(load(kProcessWord)); }
int Flight::rank() const { return static_cast<int>(load(kRankWord)); }
int Flight::world() const { return static_cast<int>(load(kWorldWord)); }

void Flight::set_status(const Status& status) {
  const std::uint64_t version = load(kStatusVersion) | 1;
  store(kStatusVersion, version);
  store(kStateWord, static_cast<std::uint64_t>(status.state));
  store(kSinceWord, std::bit_cast<std::uint64_t>(status.waiting.since));
  store(kKeyWord, status.waiting.key);
  store(kNumberWord, status.waiting.number);
  store(kStatusVersion, version + 1);
}

Flight::Status Flight::status() const {
  for (int tries = 0; tries < kTries; ++tries) {
    const std::uint64_t version = load(kStatusVersion);
    Status status;
    status.state = load(kStateWord) == static_cast<std::uint64_t>(State::kEnded) ? State::kEnded : State::kRunning;
    status.waiting = {std::bit_cast<double>(load(kSinceWord)), load(kKeyWord), load(kNumberWord)};
    if (version % 2 == 0 && load(kStatusVersion) == version) return status;
  }
  return {};
}

void Flight::write(const Call& call) {
  const Key key = call.key();
  const std::size_t slot = slot_of(key, call.number);
  const std::string text = encode(call);
  const std::uint64_t version = load(slot + kVersion) | 1;
  store(slot + kVersion, version);
  store(slot + kKey, key);
  store(slot + kNumber, call.number);
  store(slot + kLength, text.size());
  store(slot + kSum, key_of(text));
  for (std::size_t at = 0; at < text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min<std::size_t>(8, text.size() - at));
    store(slot + kText + at / 8, word);
  }
  store(slot + kVersion, version + 1);
  if (const auto last = last_of(key)) {
    store(*last + 1, std::max(call.number, load(*last + 1)));  // two threads may come in either order
    store(*last, key);                                         // whoever finds the group finds its number
  }
}

std::optional<std::size_t> Flight::last_of(Key key) const {
  for (std::size_t step = 0; step < kGroups; ++step) {
    const std::size_t word = kLastWords + (key + step) % kGroups * 2;
    const Key found = load(word);
    if (found == 0 || found == key) return word;
  }
  return std::nullopt;
}

std::optional<Call> Flight::read(Key key, Number number) const {
  const std::size_t slot = slot_of(key, number);
  for (int tries = 0; tries < kTries; ++tries) {
    const std::uint64_t version = load(slot + kVersion);
    if (version == 0 || load(slot + kKey) != key || load(slot + kNumber) != number) return std::nullopt;
    const std::uint64_t length = load(slot + kLength), sum = load(slot + kSum);
    if (length == 0 || length > kTextBytes) return std::nullopt;
    std::array<std::uint64_t, kTextBytes / 8> words;
    for (std::size_t at = 0; at * 8 < length; ++at) words[at] = load(slot + kText + at);
    if (version % 2 != 0 || load(slot + kVersion) != version) continue;
    const std::string text(reinterpret_cast<const char*>(words.data()), length);
    if (key_of(text) != sum) return std::nullopt;
    std::optional<Call> call = decode(text, number);
    return call && call->key() == key ? call : std::nullopt;
  }
  return std::nullopt;
}

bool Flight::has_come(Key key, Number number) const {
  const auto last = last_of(key);
  return !last || (load(*last) == key && load(*last + 1) >= number);
}

std::map<Key, Number> Flight::last() const {
  std::map<Key, Number> numbers;
  for (std::size_t group = 0; group < kGroups; ++group) {
    if (const Key key = load(kLastWords + group * 2)) numbers[key] = load(kLastWords + group * 2 + 1);
  }
  return numbers;
}

char process_state(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int descriptor = open_for_good(path.c_str(), O_RDONLY);
  // Gone is only who is not there; where it can't be told (no room for a descriptor, no /proc), nobody is.
  if (descriptor < 0) return errno == ENOENT && ::access("/proc/self/stat", F_OK) == 0 ? kGone : kUnknown;
  char text[512];
  const ssize_t length = ::read(descriptor, text, sizeof text);
  const int error = errno;
  ::close(descriptor);
  if (length <= 0) return length < 0 && error == ESRCH ? kGone : kUnknown;
  const std::string_view all(text, static_cast<std::size_t>(length));
  const std::size_t name_end = all.rfind(')');  // a name may hold anything
  return name_end != std::string_view::npos && name_end + 2 < all.size() ? all[name_end + 2] : kUnknown;
}

double now() {
  timespec time = {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

namespace {

/// The names of flight files in a folder, in order.
std::vector<std::string> flight_names(const std::string& folder) {
  std::vector<std::string> names;
  DIR* listing = ::opendir(folder.c_str());
  if (listing == nullptr) return names;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (name.ends_with(kEnding)) names.emplace_back(name);
  }
  ::closedir(listing);
  std::sort(names.begin(), names.end());
  return names;
}

std::string job_in(const std::string& name) {
  const std::string stem = name.substr(0, name.size() - kEnding.size());
  const std::size_t dot = stem.rfind('.');
  return dot == std::string::npos ? "" : stem.substr(0, dot);
}

}  // namespace

std::string flight_path(const std::string& folder, const std::string& job, pid_t pid) {
  return folder + "/" + job + "." + std::to_string(pid) + std::string(kEnding);
}

std::vector<std::string> jobs_in(const std::string& folder) {
  std::set<std::string> jobs;
  for (const std::string& name : flight_names(folder)) jobs.insert(job_in(name));
  return {jobs.begin(), jobs.end()};
}

std::vector<std::string> flights_in(const std::string& folder, const std::string& job) {
  std::vector<std::string> paths;
  for (const std::string& name : flight_names(folder)) {
    if (job_in(name) == job) paths.push_back(folder + "/" + name);
  }
  return paths;
}

}  // namespace locus::engine::ranks
