#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "reprise/kernels/cuda/cuda_executor.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"

/// For tests: ops by the kernels whose weights arrive by bulk copies, and by the usual ones.
namespace reprise::kernels::cuda {

/// The outputs of one call: the result, and the caches that it wrote.
using Bytes = std::vector<std::byte>;

class StreamedOps : public CudaOps {
 public:
  static std::string name_of(const testing::TestParamInfo<DType>& info) {
    return std::string(dtype_name(info.param));
  }

 protected:
  using Kernel = ProductChoice::Kernel;

  void SetUp() override {
    if (!executor_.has_streamed_kernels()) GTEST_SKIP() << "this GPU has no bulk copies";
    if (machine_.is_real()) return;
    machine_.driver().set_time_of_kernels([this](const std::string& function, uint32_t num_blocks) {
      functions_.insert(function);
      most_blocks_ = std::max(most_blocks_, num_blocks);
      return 1.0;
    });
  }

  /// Runs an op by a kernel of choice. `changed`: tensors that the op writes besides its result;
  /// they are filled with 0xFF before.
  Bytes bytes_by(const ProductChoice& choice,
                 OpCode code,
                 const std::vector<Tensor>& inputs,
                 const OpAttributes& attributes,
                 const std::vector<Tensor>& changed) {
    for (const Tensor& tensor : changed) {
      std::memset(tensor.data(), 0xFF, tensor.type().bytes());
    }
    functions_.clear();
    const ForcedChoice forced(executor_.choices(), choice);
    Bytes bytes = bytes_of(run(code, inputs, attributes));
    if (!machine_.is_real()) {
      const bool is_streamed = std::ranges::any_of(functions_, [](const std::string& function) {
        return function.find("_streamed_") != std::string::npos;
      });
      EXPECT_EQ(is_streamed, choice.kernel == Kernel::streamed) << op_name(code);
    }
    for (const Tensor& tensor : changed) {
      const Bytes more = bytes_of(tensor);
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    return bytes;
  }
  static Bytes bytes_of(const Tensor& tensor) {
    const auto* begin = tensor.data_as<std::byte>();
    return {begin, begin + tensor.type().bytes()};
  }

  std::set<std::string> functions_;
  uint32_t most_blocks_ = 0;
};

/// Memory that ends where no memory is, so that a read beyond its end stops the test.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes)
      : room_(whole_pages(bytes)),
        begin_(static_cast<std::byte*>(mmap(
            nullptr, room_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        data_(begin_ + room_ - bytes) {
    EXPECT_EQ(mprotect(begin_ + room_, kPage, PROT_NONE), 0);
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { munmap(begin_, room_ + kPage); }
  [[nodiscard]] void* data() const { return data_; }

 private:
  static constexpr size_t kPage = 4096;
  static size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
  size_t room_;
  std::byte* begin_;
  std::byte* data_;
};

}  // namespace reprise::kernels::cuda
