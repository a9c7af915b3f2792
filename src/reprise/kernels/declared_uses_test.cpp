#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <array>
#include <span>

#include "tests/support/kernels/kernel_test_fixture.h"

// Tests with kernels that use other memory than they declare. Verification of graphs
// (cudagraph/verify) and barriers rely on these declarations, so the stream on which all kernel
// tests run must find every wrong one.
namespace reprise::kernels {
namespace {

using device::BufferUse;

struct alignas(16) LieArguments {
  float* out = nullptr;
  float* in = nullptr;
};

void copy_one(const void* raw, device::BlockRange blocks) noexcept {
  if (blocks.begin == blocks.end) return;
  const auto& a = *static_cast<const LieArguments*>(raw);
  a.out[0] = a.in[0] + 1;
}
void add_to_out(const void* raw, device::BlockRange blocks) noexcept {
  if (blocks.begin == blocks.end) return;
  const auto& a = *static_cast<const LieArguments*>(raw);
  a.out[0] += a.in[0];
}
void write_both(const void* raw, device::BlockRange blocks) noexcept {
  if (blocks.begin == blocks.end) return;
  const auto& a = *static_cast<const LieArguments*>(raw);
  a.out[0] = a.in[0];
  a.in[0] = 3;
}
void write_one_more(const void* raw, device::BlockRange blocks) noexcept {
  if (blocks.begin == blocks.end) return;
  const auto& a = *static_cast<const LieArguments*>(raw);
  a.out[0] = a.in[0];
  a.out[1] = 3;
}
void read_one_more(const void* raw, device::BlockRange blocks) noexcept {
  if (blocks.begin == blocks.end) return;
  const auto& a = *static_cast<const LieArguments*>(raw);
  a.out[0] = a.in[0] + a.in[1];
}
constexpr device::Kernel kCopyOne{.name = "copy_one", .cpu = copy_one};
constexpr device::Kernel kAddToOut{.name = "add_to_out", .cpu = add_to_out};
constexpr device::Kernel kWriteBoth{.name = "write_both", .cpu = write_both};
constexpr device::Kernel kWriteOneMore{.name = "write_one_more", .cpu = write_one_more};
constexpr device::Kernel kReadOneMore{.name = "read_one_more", .cpu = read_one_more};

enum class Declared { truth, in_missing, out_as_changed };

// A free function, because the macros of gtest-spi cannot see a test's own variables.
void launch(const device::Kernel& kernel, Declared declared) {
  TestMemory memory;
  CheckedStream stream(memory);
  auto* out = static_cast<float*>(memory.take(sizeof(float), 64));
  auto* in = static_cast<float*>(memory.take(2 * sizeof(float), 64));
  out[0] = 5;
  in[0] = 7;
  in[1] = 9;
  const LieArguments arguments{.out = out, .in = in};
  const std::array uses{
      BufferUse{out,
                sizeof(float),
                declared == Declared::out_as_changed ? BufferUse::Access::read_write
                                                     : BufferUse::Access::write},
      BufferUse{in, sizeof(float), BufferUse::Access::read}};
  stream.launch({.kernel = &kernel,
                 .num_blocks = 1,
                 .args = std::as_bytes(std::span(&arguments, 1)),
                 .uses = std::span(uses).first(declared == Declared::in_missing ? 1 : 2)});
}

TEST(DeclaredUses, a_kernel_that_tells_the_truth_passes) {
  launch(kCopyOne, Declared::truth);
  launch(kAddToOut, Declared::out_as_changed);
}

TEST(DeclaredUses, a_read_that_was_not_declared_is_found) {
  EXPECT_NONFATAL_FAILURE(launch(kCopyOne, Declared::in_missing), "memory it did not declare");
  EXPECT_NONFATAL_FAILURE(launch(kReadOneMore, Declared::truth), "memory it did not declare");
}

TEST(DeclaredUses, a_write_that_was_not_declared_is_found) {
  EXPECT_NONFATAL_FAILURE(launch(kWriteOneMore, Declared::truth), "wrote bytes it did not declare");
}

TEST(DeclaredUses, a_write_to_what_is_only_read_is_found) {
  EXPECT_NONFATAL_FAILURE(launch(kWriteBoth, Declared::truth), "wrote bytes it did not declare");
}

TEST(DeclaredUses, a_read_of_what_is_only_written_is_found) {
  EXPECT_NONFATAL_FAILURE(launch(kAddToOut, Declared::truth), "what it only writes");
}

}  // namespace
}  // namespace reprise::kernels
