#include "device_conformance.h"

#include <gtest/gtest-spi.h>

#include <algorithm>
#include <exception>

namespace reprise::device::conformance {
namespace {

// The failures of the body, as text; empty if it passed.
std::vector<std::string> failures_of(const DeviceUnderTest& device, Case body) {
  testing::TestPartResultArray results;
  std::vector<std::string> failures;
  try {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    Subject subject(device.create());
    body(subject);
  } catch (const std::exception& error) {
    failures.emplace_back(error.what());
  }
  for (int i = 0; i < results.size(); ++i) {
    if (results.GetTestPartResult(i).failed()) {
      failures.emplace_back(results.GetTestPartResult(i).message());
    }
  }
  return failures;
}

}  // namespace

void run_case(const DeviceUnderTest& device, std::string_view name, Case body) {
  const auto exclusion = std::ranges::find(device.exclusions, name, &Exclusion::test);
  if (exclusion == device.exclusions.end()) {
    Subject subject(device.create());
    body(subject);
    return;
  }
  if (failures_of(device, body).empty()) {
    FAIL() << device.name << " passes " << name << ", which is excluded because \""
           << exclusion->reason << "\"; remove the exclusion";
  }
  GTEST_SKIP() << exclusion->reason;
}

}  // namespace reprise::device::conformance
