// The store of a rank that runs without the rest of its world: what nobody has set is refused, never waited for.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

namespace locus::bridge {

class LoneStore final : public c10d::HashStore {
 public:
  std::vector<uint8_t> get(const std::string& key) override {
    refuse_absent({key});
    return HashStore::get(key);
  }
  void wait(const std::vector<std::string>& keys) override { refuse_absent(keys); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { refuse_absent(keys); }

 private:
  void refuse_absent(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      TORCH_CHECK(check({key}), "locus: '", key,
                  "' is set in the store by a rank that does not run here (--ranks), so its value is not known");
    }
  }
};

}  // namespace locus::bridge
