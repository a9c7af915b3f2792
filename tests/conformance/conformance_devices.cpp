#include "device_conformance.h"
#include "reprise/device/cpu/cpu_device.h"
#include "tests/support/fake_device/fake_device.h"

namespace reprise::device::conformance {

std::vector<DeviceUnderTest> devices_under_test() {
  const auto cpu = [](int num_threads) {
    return [num_threads]() -> std::unique_ptr<Device> {
      return create_cpu_device({.num_threads = num_threads, .allow_oversubscription = true});
    };
  };
  return {
      {.name = "cpu", .create = cpu(0), .exclusions = {}},
      {.name = "cpu_1_thread", .create = cpu(1), .exclusions = {}},
      // With these numbers of threads both kinds of barriers are used, also on machines with fewer
      // cores.
      {.name = "cpu_3_threads", .create = cpu(3), .exclusions = {}},
      {.name = "cpu_7_threads", .create = cpu(7), .exclusions = {}},
      {.name = "fake", .create = [] { return create_fake_device(); }, .exclusions = {}},
  };
}

}  // namespace reprise::device::conformance
