#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tests/support/fake_cuda/fake_driver_fixture.h"

/// For tests: runs generated kernels, compiled by the host's compiler into a shared object, thread
/// by thread. A program that loads such an object must export the functions of
/// host_block_fixture.h.
namespace reprise::kernels::cuda {

/// The kernels in a shared object, by name; an empty function if the bytes are not one. The object
/// stays loaded.
[[nodiscard]] device::cuda::FakeImage load_host_image(std::span<const std::byte> object);

/// Does the same when only the address of the bytes is known, as in a driver. The bytes must end
/// with the section table of the ELF file.
[[nodiscard]] device::cuda::FakeImage read_host_image(const void* object);

}  // namespace reprise::kernels::cuda
