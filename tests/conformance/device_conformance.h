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

/// A case that a device does not pass, and why that is acceptable.
struct Exclusion {
  std::string_view test;
  std::string_view reason;
};

/// One way of making a device, to be held to the contract in reprise/device/device.h.
struct DeviceUnderTest {
  std::string name;  // of the test instance
  std::function<std::unique_ptr<Device>()> create;
  std::vector<Exclusion> exclusions;

  friend void PrintTo(const DeviceUnderTest& device, std::ostream* out) { *out << device.name; }
};

/// The devices that this program tests: each program of the suite has its own list.
[[nodiscard]] std::vector<DeviceUnderTest> devices_under_test();

/// A device with one stream and the few moves that the cases need. Values live in device memory and
/// cross to the host only by copies, so a case runs on any device.
struct Subject {
  explicit Subject(std::unique_ptr<Device> created)
      : device(std::move(created)), stream(device->create_stream()) {}

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
};

using Case = void (*)(Subject& subject);

/// Runs a case. An excluded one is skipped with its reason if it fails, and fails if it passes: an
/// exclusion that is no longer needed must go.
void run_case(const DeviceUnderTest& device, std::string_view name, Case body);

class DeviceConformance : public testing::TestWithParam<DeviceUnderTest> {};

}  // namespace reprise::device::conformance

/// DEVICE_CASE(sentence) { ... use `subject` ... }
#define DEVICE_CASE(sentence)                                                        \
  static void sentence(Subject& subject);                                            \
  TEST_P(DeviceConformance, sentence) { run_case(GetParam(), #sentence, sentence); } \
  static void sentence(Subject& subject)
