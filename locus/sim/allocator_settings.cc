// The words of PYTORCH_CUDA_ALLOC_CONF: what they say of memory, and which of them PyTorch refuses. See
// caching_model.h.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "locus/sim/caching_model.h"

namespace locus::sim {

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kLeastLarge = 10;  // MiB: from here on a request has a segment of its own
constexpr std::size_t kMostThreads = 128;

using Kind = SettingsRefusal::Kind;

/// Reads as PyTorch does: keys, values and the signs between them, without white space; whether a sign stands where one
/// should is asked nowhere.
class Parser {
 public:
  Parser(std::string_view text, SettingsFrom from) : from_(from) {
    settings_.text = text;
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) words_.push_back(std::move(word));
      word.clear();
    };
    for (const char letter : text) {
      if (std::string_view(",:[]").find(letter) != std::string_view::npos) {
        end_word();
        words_.emplace_back(1, letter);
      } else if (std::isspace(static_cast<unsigned char>(letter)) == 0) {
        word += letter;
      }
    }
    end_word();
  }

  AllocatorSettings read() {
    for (; at_ < words_.size(); ++at_) {
      const std::string key = words_[at_];
      next(), next();  // the colon, the value
      read_value(key);
      if (at_ + 1 < words_.size()) next();  // the comma
    }
    return settings_;
  }

 private:
  void read_value(std::string_view key) {
    if (key == "max_split_size_mb") {
      settings_.max_split = at_least_a_segment(key);
    } else if (key == "max_non_split_rounding_mb") {
      settings_.max_rounding = at_least_a_segment(key);
    } else if (key == "large_segment_size_mb") {
      const std::size_t mib = number();
      need(mib > kLeastLarge, "CachingAllocator option large_segment_size_mb must be > 10 MB");
      settings_.large_segment = std::min(mib, SIZE_MAX / kMiB) * kMiB;
    } else if (key == "garbage_collection_threshold") {
      settings_.collect_from = fraction();
      need(settings_.collect_from > 0 && settings_.collect_from < 1,
           "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
    } else if (key == "per_process_memory_fraction") {
      settings_.fraction = fraction();
      need(settings_.fraction >= 0 && settings_.fraction <= 1,
           "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
    } else if (key == "expandable_segments") {
      settings_.expandable = flag();
    } else if (key == "roundup_power2_divisions") {
      divisions();
    } else if (key == "backend") {
      settings_.asynchronous = word() == "cudaMallocAsync";
      need(settings_.asynchronous || word() == "native",
           "Unknown allocator backend, options are native and cudaMallocAsync");
      need(!settings_.asynchronous || from_ == SettingsFrom::kEnvironment,
           "Allocator backend parsed at runtime != allocator backend parsed at load time, cudaMallocAsync != native",
           Kind::kRuntime);
    } else {
      read_other(key);
    }
  }

  /// Words that say nothing of how much is taken.
  void read_other(std::string_view key) {
    if (key == "release_lock_on_cudamalloc" || key == "release_lock_on_hipmalloc") {
      settings_.releases_lock = flag();
    } else if (key == "pinned_use_cuda_host_register" || key == "pinned_use_hip_host_register") {
      settings_.registers_host = flag();
    } else if (key == "graph_capture_record_stream_reuse") {
      settings_.records_reuse = flag();
    } else if (key == "pinned_use_background_threads" || key == "pinned_free_catch_all" ||
               key == "throw_on_cudamalloc_oom") {
      flag();
    } else if (key == "pinned_num_register_threads") {
      const std::size_t threads = settings_.register_threads = number();
      need(std::has_single_bit(threads),
           "Number of register threads has to be power of 2, got " + std::to_string(threads));
      need(threads <= kMostThreads, "Number of register threads should be less than or equal to " +
                                        std::to_string(kMostThreads) + ", got " + std::to_string(threads));
    } else if (key == "pinned_reserve_segment_size_mb") {
      need(number() > 0, "Pinned reserve segment size has to be greater than 0");
    } else if (key == "pinned_max_round_threshold_mb" || key == "pinned_max_cached_size_mb") {
      number();
    } else {
      const char* reader = from_ == SettingsFrom::kEnvironment ? "CUDA" : "Accelerator";
      need(false, "Unrecognized key '" + std::string(key) + "' in " + reader + " allocator config.");
    }
  }

  /// "4", or "[256:1,512:2,>:8]": how many steps between two powers of two, by the size in MiB.
  void divisions() {
    auto& all = settings_.divisions;
    if (word() != "[") {
      const std::size_t steps = number();
      need(std::has_single_bit(steps), "For roundups, the divisions has to be power of 2 ");
      all.fill(steps);
      return;
    }
    std::size_t last = 0;
    for (bool first = true; next(), word() != "]";) {
      const std::size_t boundary_at = at_;
      next(), next();  // the colon, the steps
      const std::size_t steps = number();
      need(steps == 0 || std::has_single_bit(steps),
           "For roundups, the divisions has to be power of 2 or 0 to disable roundup ");
      if (words_[boundary_at] == ">") {
        std::fill(all.begin() + static_cast<std::ptrdiff_t>(last), all.end(), steps);
      } else {
        const std::size_t boundary = number_of(words_[boundary_at]);
        need(std::has_single_bit(boundary), "For roundups, the intervals have to be power of 2 ");
        last = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(boundary)) - 1, all.size() - 1);
        if (first) std::fill_n(all.begin(), last, steps);
        first = false;
        all[last] = steps;
      }
      need_word(at_ + 1);
      if (words_[at_ + 1] != "]") next();  // the comma
    }
  }

  std::size_t at_least_a_segment(std::string_view key) {
    const std::size_t mib = number(), least = settings_.large_segment / kMiB;
    need(mib >= least,
         "CachingAllocator option " + std::string(key) + " too small, must be >= " + std::to_string(least));
    return std::min(mib, SIZE_MAX / kMiB) * kMiB;
  }

  std::size_t number() { return number_of(word()); }
  /// "64MB" is 64.
  std::size_t number_of(const std::string& text) const {
    char* end = nullptr;
    errno = 0;
    const std::size_t number = std::strtoull(text.c_str(), &end, 10);
    need(end != text.c_str(), "stoull", misread(Kind::kValue));
    need(errno != ERANGE, "stoull", misread(Kind::kIndex));
    return number;
  }
  double fraction() {
    char* end = nullptr;
    errno = 0;
    const double number = std::strtod(word().c_str(), &end);
    need(end != word().c_str(), "stod", misread(Kind::kValue));
    need(errno != ERANGE, "stod", misread(Kind::kIndex));
    return number;
  }
  /// PyTorch has no words of its own for what is no number: the standard library's, in whatever the caller makes of
  /// them.
  Kind misread(Kind kind) const { return from_ == SettingsFrom::kEnvironment ? Kind::kRuntime : kind; }
  bool flag() {
    need(word() == "True" || word() == "False",
         "Expected 'True' or 'False' at index " + std::to_string(at_) + " in ConfigTokenizer but got '" + word() + "'");
    return word() == "True";
  }

  const std::string& word() {
    need_word(at_);
    return words_[at_];
  }
  void next() { ++at_; }
  void need_word(std::size_t at) const {
    need(at < words_.size(), "Index out of bounds in ConfigTokenizer", Kind::kRuntime);
  }
  static void need(bool is_so, std::string words, Kind kind = Kind::kValue) {
    if (!is_so) throw SettingsRefusal{kind, std::move(words)};
  }

  SettingsFrom from_;
  std::vector<std::string> words_;
  std::size_t at_ = 0;
  AllocatorSettings settings_;
};

}  // namespace

std::optional<AllocatorSettings> parse_allocator_settings(std::string_view text, SettingsFrom from,
                                                          SettingsRefusal* refusal) {
  try {
    return Parser(text, from).read();
  } catch (SettingsRefusal& refused) {
    if (refusal != nullptr) *refusal = std::move(refused);
    return std::nullopt;
  }
}

}  // namespace locus::sim
