#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tests/support/fake_cuda/fake_driver_fixture.h"

/// For tests: generated kernels that the host's compiler made into a shared object, run thread by
/// thread. The program that loads one exports what host_block_fixture.h declares.
namespace reprise::kernels::cuda {

/// Kernels of a shared object's bytes, by name; empty if they are none. Stays loaded.
[[nodiscard]] device::cuda::FakeImage load_host_image(std::span<const std::byte> object);

/// The same for bytes of which only the address is known, as the driver is told: they end behind
/// the ELF file's table of sections.
[[nodiscard]] device::cuda::FakeImage read_host_image(const void* object);

}  // namespace reprise::kernels::cuda
