#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/device/device.h"

namespace reprise::device::conformance {

/// A case that a device does not pass, and the reason why that is acceptable.
struct Exclusion {
  std::string_view test;
  std::string_view reason;
};

/// A function that makes a device. The device must meet the contract in reprise/device/device.h.
struct DeviceUnderTest {
  std::string name;  // of the test instance
  std::function<std::unique_ptr<Device>()> create;
  std::vector<Exclusion> exclusions;

  friend void PrintTo(const DeviceUnderTest& device, std::ostream* out) { *out << device.name; }
};

/// The devices that this program tests: each program of the suite has its own list.
[[nodiscard]] std::vector<DeviceUnderTest> devices_under_test();

/// A device with one stream, and the operations that the cases need. Values are in device memory
/// and reach the host only by copies, so a case runs on any device.
struct Subject {
  explicit Subject(std::unique_ptr<Device> created)
      : device(std::move(created)), stream(device->create_stream()) {}

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
};

using Case = void (*)(Subject& subject);

/// Runs a case. An excluded case is skipped with its reason if it fails, and fails if it passes, so
/// that an exclusion that is no longer needed is removed.
void run_case(const DeviceUnderTest& device, std::string_view name, Case body);

class DeviceConformance : public testing::TestWithParam<DeviceUnderTest> {};

}  // namespace reprise::device::conformance

/// DEVICE_CASE(sentence) { ... use `subject` ... }
#define DEVICE_CASE(sentence)                                                        \
  static void sentence(Subject& subject);                                            \
  TEST_P(DeviceConformance, sentence) { run_case(GetParam(), #sentence, sentence); } \
  static void sentence(Subject& subject)
