#include "reprise/kernels/cuda/row_sampler.h"

#include <array>
#include <cstring>
#include <type_traits>

#include "reprise/base/assert.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/sampling_arguments.h"
#include "reprise/kernels/launch.h"

namespace reprise::kernels::cuda {
namespace {

static_assert(std::is_trivially_copyable_v<SamplingRow> && sizeof(SamplingRow) % 16 == 0);

// The average number per row. OpenAI allows 300 for one request, and few requests use any.
constexpr int32_t kAdjustmentsPerRow = 64;

}  // namespace

CudaRowSampler::CudaRowSampler(device::Stream& stream, int32_t max_rows, int64_t vocab_size)
    : stream_(&stream), max_rows_(max_rows) {
  REPRISE_ASSERT(vocab_size <= kLargestVocabulary, "a vocabulary of {} tokens", vocab_size);
  const auto rows = static_cast<size_t>(max_rows);
  staged_.resize(rows * sizeof(SamplingRow) +
                 static_cast<size_t>(max_adjustments()) * sizeof(LogitAdjustment));
  host_tokens_.reserve(rows);
  stream.device().load(sampling_kernel());
  input_ = stream.device().allocate(staged_.size());
  tokens_ = stream.device().allocate(rows * sizeof(int32_t));
}

int32_t CudaRowSampler::max_adjustments() const noexcept { return max_rows_ * kAdjustmentsPerRow; }

void CudaRowSampler::launch(const Tensor& logits,
                            std::span<const SamplingRow> rows,
                            std::span<const LogitAdjustment> adjustments) {
  REPRISE_ASSERT(!rows.empty() && rows.size() <= static_cast<size_t>(max_rows_) &&
                     adjustments.size() <= static_cast<size_t>(max_adjustments()),
                 "{} rows and {} adjustments for {} rows",
                 rows.size(),
                 adjustments.size(),
                 max_rows_);
  REPRISE_ASSERT(logits.dtype() == DType::f32 && logits.is_dense(), "logits of another layout");
  std::memcpy(staged_.data(), rows.data(), rows.size_bytes());
  if (!adjustments.empty()) {
    std::memcpy(staged_.data() + rows.size_bytes(), adjustments.data(), adjustments.size_bytes());
  }
  stream_->copy_from_host(
      input_.data(), staged_.data(), rows.size_bytes() + adjustments.size_bytes());
  auto* input = static_cast<std::byte*>(input_.data());
  const CudaSamplingArguments arguments = {
      .logits = logits.data_as<float>(),
      .rows = reinterpret_cast<const SamplingRow*>(input),
      .adjustments = reinterpret_cast<const LogitAdjustment*>(input + rows.size_bytes()),
      .tokens = static_cast<int32_t*>(tokens_.data()),
      .vocab_size = logits.size(1)};
  host_tokens_.resize(rows.size());
  (void)kernels::launch(*stream_,
                        sampling_kernel(),
                        static_cast<uint32_t>(rows.size()),
                        arguments,
                        std::array{writes(logits)});
}

std::span<const int32_t> CudaRowSampler::wait() {
  stream_->copy_to_host(host_tokens_.data(), tokens_.data(), host_tokens_.size() * sizeof(int32_t));
  return host_tokens_;
}

}  // namespace reprise::kernels::cuda
