// See generator.h.
#include "locus/bridge/kernels/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include <mutex>
#include <vector>

#include "locus/bridge/state.h"

namespace locus::bridge {
namespace {

std::vector<at::Generator>& defaults() {
  static auto* generators = new std::vector<at::Generator>;
  return *generators;
}
bool g_shared_rng = false;
std::recursive_mutex g_borrow_mutex;

at::CPUGeneratorImpl* impl_of(const at::Generator& generator) { return generator.get<at::CPUGeneratorImpl>(); }

/// Exchanges everything that a CPU generator draws from: engine and the spare normal samples.
void exchange_state(at::CPUGeneratorImpl* a, at::CPUGeneratorImpl* b) {
  auto engine = a->engine();
  auto single = a->next_float_normal_sample();
  auto pair = a->next_double_normal_sample();
  a->set_engine(b->engine());
  a->set_next_float_normal_sample(b->next_float_normal_sample());
  a->set_next_double_normal_sample(b->next_double_normal_sample());
  b->set_engine(engine);
  b->set_next_float_normal_sample(single);
  b->set_next_double_normal_sample(pair);
}

}  // namespace

SimulatedGenerator::SimulatedGenerator(int device, at::Generator cpu)
    : c10::GeneratorImpl(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)),
                         c10::DispatchKeySet(c10::DispatchKey::CUDA)),
      cpu_(std::move(cpu)) {}

void SimulatedGenerator::set_current_seed(uint64_t seed) { cpu_.set_current_seed(seed); }
void SimulatedGenerator::set_offset(uint64_t) {
  TORCH_CHECK(false,
              "locus: a simulated generator has no Philox offset; save and restore its state with "
              "get_state() and set_state()");
}
uint64_t SimulatedGenerator::get_offset() const {
  TORCH_CHECK(false,
              "locus: a simulated generator has no Philox offset; save and restore its state with "
              "get_state() and set_state()");
}
uint64_t SimulatedGenerator::current_seed() const { return cpu_.current_seed(); }
uint64_t SimulatedGenerator::seed() { return cpu_.seed(); }
void SimulatedGenerator::set_state(const c10::TensorImpl& new_state) { impl_of(cpu_)->set_state(new_state); }
c10::intrusive_ptr<c10::TensorImpl> SimulatedGenerator::get_state() const { return impl_of(cpu_)->get_state(); }
SimulatedGenerator* SimulatedGenerator::clone_impl() const {
  return new SimulatedGenerator(device().index(), cpu_.clone());
}

const at::Generator& default_generator(int device) { return defaults().at(device); }
at::Generator new_generator(int device) {
  return at::make_generator<SimulatedGenerator>(device, at::detail::createCPUGenerator());
}
bool shared_rng() { return g_shared_rng; }

void install_generators(int devices, bool shared) {
  g_shared_rng = shared;
  for (int i = static_cast<int>(defaults().size()); i < devices; ++i) {
    at::Generator cpu = shared ? at::detail::getDefaultCPUGenerator() : at::detail::createCPUGenerator();
    defaults().push_back(at::make_generator<SimulatedGenerator>(i, std::move(cpu)));
  }
}

const at::Generator& cpu_generator_of(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == c10::kCUDA, "Expected a 'cuda' device type for generator but found '",
              c10::DeviceTypeName(generator.device().type(), /*lower_case=*/true), "'");
  return static_cast<SimulatedGenerator*>(generator.unsafeGetGeneratorImpl())->cpu();
}

BorrowDefaultGenerator::BorrowDefaultGenerator(int device) : device_(g_shared_rng ? -1 : device) {
  if (device_ < 0) return;
  g_borrow_mutex.lock();
  exchange_state(impl_of(at::detail::getDefaultCPUGenerator()), impl_of(cpu_generator_of(default_generator(device_))));
}
BorrowDefaultGenerator::~BorrowDefaultGenerator() {
  if (device_ < 0) return;
  exchange_state(impl_of(at::detail::getDefaultCPUGenerator()), impl_of(cpu_generator_of(default_generator(device_))));
  g_borrow_mutex.unlock();
}

}  // namespace locus::bridge
