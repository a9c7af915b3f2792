#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "reprise/kernels/accelerator.h"
#include "reprise/kernels/cuda/cuda_accelerator.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"
#include "tests/support/fake_cuda/fake_cublas_lt_fixture.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"
#include "tests/support/fake_cuda/fake_nccl_fixture.h"

// A reprise_cuda.so for tests: in the program's folder, it provides a fake GPU on the host. All
// code above the driver is the same as with a real GPU. REPRISE_FAKE_MEMORY is the GPU's memory in
// bytes; REPRISE_FAKE_WITHOUT_VIRTUAL_MEMORY makes it a GPU that cannot reserve addresses.
// REPRISE_FAKE_CAPABILITY is the compute capability (90) by which cuBLASLt has products of eight
// bits. There are REPRISE_FAKE_GPUS of them, which exchange data unless REPRISE_FAKE_WITHOUT_NCCL
// is set. Of the GPU's clock: REPRISE_FAKE_ALGORITHM_US has the times of cuBLASLt's algorithms
// ("9,3"), and REPRISE_FAKE_LINEAR_US the time of the project's own products. REPRISE_FAKE_CUBLASLT
// is the version of cuBLASLt.
namespace reprise::kernels::cuda {
namespace {

struct Machine {
  device::cuda::FakeDriver driver;
  FakeCublasLt cublas_lt{driver};
  FakeNccl nccl{driver};
};

/// Ranks are processes: while one waits for a message, its GPU must go on.
LoadedNccl load_fake_nccl(Machine& machine) {
  if (std::getenv("REPRISE_FAKE_WITHOUT_NCCL") != nullptr) {
    return {.api = {}, .version = 0, .reason = "libnccl.so.2: no such file"};
  }
  machine.driver.work_in_background();
  return {.api = machine.nccl.api(), .version = FakeNccl::kVersion, .reason = {}};
}

/// Marks the context as lost, like after an illegal access, when this file appears in the program's
/// folder.
void watch_for_loss(Machine& machine, const std::filesystem::path& path) {
  std::thread([&machine, path] {
    while (!std::filesystem::exists(path))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    machine.driver.fail_call(1, CUDA_ERROR_ILLEGAL_ADDRESS);
  }).detach();
}

/// Sets the times of products on the GPU's clock.
void set_times(Machine& machine) {
  if (const char* times = std::getenv("REPRISE_FAKE_ALGORITHM_US"); times != nullptr) {
    std::vector<double> microseconds;
    std::istringstream text(times);
    for (std::string time; std::getline(text, time, ',');) microseconds.push_back(std::stod(time));
    machine.cublas_lt.set_candidates(microseconds);
  }
  if (const char* time = std::getenv("REPRISE_FAKE_LINEAR_US"); time != nullptr) {
    machine.driver.set_time_of_kernels(
        [time = std::stod(time)](const std::string& function, uint32_t) {
          return function.find("linear") != std::string::npos ||
                         function.find("lm_head") != std::string::npos
                     ? time
                     : 1;
        });
  }
  if (const char* version = std::getenv("REPRISE_FAKE_CUBLASLT"); version != nullptr) {
    machine.cublas_lt.set_version(std::stoul(version));
  }
}

}  // namespace
}  // namespace reprise::kernels::cuda

extern "C" __attribute__((visibility("default"))) reprise::kernels::Accelerator*
reprise_create_accelerator(uint32_t version, std::string& reason) {
  using namespace reprise::kernels;
  if (version != kAcceleratorVersion) {
    reason = "the fake plug-in is of another version";
    return nullptr;
  }
  // Never destroyed, because the program's last objects may still use it.
  static auto& machine = *new cuda::Machine();
  if (const char* memory = std::getenv("REPRISE_FAKE_MEMORY"); memory != nullptr) {
    machine.driver.set_total_memory(std::strtoull(memory, nullptr, 10));
  }
  if (const char* gpus = std::getenv("REPRISE_FAKE_GPUS"); gpus != nullptr) {
    machine.driver.set_num_gpus(static_cast<int>(std::strtoul(gpus, nullptr, 10)));
  }
  if (std::getenv("REPRISE_FAKE_WITHOUT_VIRTUAL_MEMORY") != nullptr) {
    machine.driver.set_virtual_memory(false);
  }
  if (const char* capability = std::getenv("REPRISE_FAKE_CAPABILITY"); capability != nullptr) {
    machine.cublas_lt.set_capability(std::atoi(capability));
  }
  cuda::set_times(machine);
  cuda::add_host_kernels(machine.driver);
  cuda::watch_for_loss(machine,
                       default_cuda_plugin_paths().at(0).replace_filename("device-is-lost"));
  return cuda::create_cuda_accelerator(machine.driver.api(),
                                       {.cublas_lt = {.api = machine.cublas_lt.api(), .reason = {}},
                                        .load_nccl = [] { return cuda::load_fake_nccl(machine); }})
      .release();
}
