// Random numbers of a simulated device: a generator of type CUDA around one of PyTorch's CPU
// generators, which the CPU kernels then draw from.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace locus::bridge {

class SimulatedGenerator final : public c10::GeneratorImpl {
 public:
  SimulatedGenerator(int device, at::Generator cpu);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  /// The CPU generator that holds the state.
  const at::Generator& cpu() const { return cpu_; }

 private:
  SimulatedGenerator* clone_impl() const override;
  at::Generator cpu_;
};

/// The default generator of a device. With `shared_rng` they all draw from PyTorch's CPU generator.
const at::Generator& default_generator(int device);
at::Generator new_generator(int device);
void install_generators(int devices, bool shared_rng);
bool shared_rng();

/// The CPU generator behind a generator of a simulated device. Raises for one of another device type, as PyTorch does.
const at::Generator& cpu_generator_of(const at::Generator& generator);

/// For operators that draw but take no generator: PyTorch's CPU generator holds the device's state meanwhile.
class BorrowDefaultGenerator {
 public:
  explicit BorrowDefaultGenerator(int device);
  ~BorrowDefaultGenerator();
  BorrowDefaultGenerator(const BorrowDefaultGenerator&) = delete;
  BorrowDefaultGenerator& operator=(const BorrowDefaultGenerator&) = delete;

 private:
  int device_;
};

}  // namespace locus::bridge
