#include "reprise/kernels/cuda/row_sampler.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "reprise/base/assert.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/sampling_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/rows.h"

namespace reprise::kernels::cuda {
namespace {

static_assert(std::is_trivially_copyable_v<SamplingRow> && sizeof(SamplingRow) % 16 == 0);

// Average number of adjustments per row. OpenAI allows 300 for one request, and few requests have
// any.
constexpr int32_t kAdjustmentsPerRow = 64;

// One load for each of the 256 threads of a block: a smaller part would take as long.
constexpr int64_t kSmallestPart = int64_t{256} * kTokensAtOnce;
static_assert(kSmallestPart % kSegmentTokens == 0);
// This number of the sampler's blocks runs at the same time on a multiprocessor; more blocks would
// wait.
constexpr int kSamplerBlocksPerMultiprocessor = 4;

// The most memory of counts, for 276 requests with penalties and 152,064 tokens. If more run at the
// same time, the host samples the others.
constexpr int64_t kMostCountBytes = int64_t{160} << 20;
// The tokens that one copy brings to the device to be counted.
constexpr size_t kCountedAtOnce = 16384;

int32_t count_slots_that_fit(int32_t most, int64_t stride) {
  const int64_t fit = kMostCountBytes / (stride * static_cast<int64_t>(sizeof(uint32_t)));
  return static_cast<int32_t>(std::min<int64_t>(fit, most));
}

}  // namespace

CudaRowSampler::CudaRowSampler(device::Stream& stream,
                               int32_t max_rows,
                               int64_t vocab_size,
                               int num_multiprocessors,
                               int32_t most_counted)
    : stream_(&stream),
      max_rows_(max_rows),
      vocab_size_(vocab_size),
      num_multiprocessors_(num_multiprocessors),
      count_stride_(ceil_div(vocab_size, kTokensAtOnce) * kTokensAtOnce),
      num_count_slots_(count_slots_that_fit(std::min(max_rows, most_counted), count_stride_)),
      places_(make_workspace()) {
  REPRISE_ASSERT(vocab_size <= kLargestVocabulary, "a vocabulary of {} tokens", vocab_size);
  const auto rows = static_cast<size_t>(max_rows);
  staged_.resize(rows * sizeof(SamplingRow) +
                 static_cast<size_t>(max_adjustments()) * sizeof(LogitAdjustment));
  host_tokens_.reserve(rows);
  host_logprobs_.reserve(rows);
  const SamplingKernels kernels = sampling_kernels();
  device::Device& device = stream.device();
  for (const device::Kernel* kernel : {kernels.largest,
                                       kernels.weights,
                                       kernels.candidates,
                                       kernels.write_tokens,
                                       kernels.count_tokens,
                                       kernels.weigh_logprobs,
                                       kernels.list_likeliest})
    device.load(*kernel);
  input_ = device.allocate(staged_.size());
  tokens_ = device.allocate(results_.size() * rows * sizeof(int32_t));
  logprobs_ = device.allocate(results_.size() * rows * sizeof(RowLogprobs));
  token_places_ = device.allocate(rows * sizeof(TokenPlace));
  workspace_ = device.allocate(places_.bytes);
  copies_ = device.create_stream();
  for (size_t i = 0; i < results_.size(); ++i) {
    results_[i].tokens = static_cast<int32_t*>(tokens_.data()) + i * rows;
    results_[i].logprobs = static_cast<RowLogprobs*>(logprobs_.data()) + i * rows;
    results_[i].ready = device.create_event();
  }
}

int32_t CudaRowSampler::max_adjustments() const noexcept { return max_rows_ * kAdjustmentsPerRow; }

CudaRowSampler::Workspace CudaRowSampler::make_workspace() const {
  Workspace workspace;
  const auto place_bytes = [&](size_t& offset, size_t bytes) {
    constexpr size_t kAlignment = 256;
    offset = workspace.bytes;
    workspace.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  const auto place = [&](size_t& offset, size_t bytes_per_row) {
    place_bytes(offset, static_cast<size_t>(max_rows_) * bytes_per_row);
  };
  place(workspace.states, sizeof(SamplingState));
  place(workspace.parts, kMostSamplingParts * sizeof(uint64_t));
  place(workspace.segments,
        static_cast<size_t>(ceil_div(vocab_size_, kSegmentTokens)) * sizeof(uint64_t));
  place(workspace.histograms, kSamplingBuckets * sizeof(uint64_t));
  place(workspace.candidates, kMostCandidates * sizeof(int32_t));
  const auto slots = static_cast<size_t>(num_count_slots_);
  place_bytes(workspace.counts, slots * static_cast<size_t>(count_stride_) * sizeof(uint32_t));
  place_bytes(workspace.counted_tokens, kCountedAtOnce * sizeof(int32_t));
  return workspace;
}

void CudaRowSampler::stage(std::span<const SamplingRow> rows,
                           std::span<const LogitAdjustment> adjustments) {
  REPRISE_ASSERT(!rows.empty() && rows.size() <= static_cast<size_t>(max_rows_) &&
                     adjustments.size() <= static_cast<size_t>(max_adjustments()),
                 "{} rows and {} adjustments are too many (or none) for a sampler of {} rows",
                 rows.size(),
                 adjustments.size(),
                 max_rows_);
  std::byte* next = staged_.data();
  for (SamplingRow row : rows) {
    // Top_k is off then, and there are fewer launches without it.
    if (row.top_k >= vocab_size_) row.top_k = 0;
    REPRISE_ASSERT(
        row.num_logprobs <= kMostTopLogits &&
            (row.num_logprobs < 0 || (row.num_adjustments == 0 && row.count_slot == kNoCountSlot)),
        "a row with {} log-probabilities, {} adjustments and count slot {}",
        row.num_logprobs,
        row.num_adjustments,
        row.count_slot);
    std::memcpy(next, &row, sizeof row);
    next += sizeof row;
  }
  if (!adjustments.empty()) std::memcpy(next, adjustments.data(), adjustments.size_bytes());
  stream_->copy_from_host(
      input_.data(), staged_.data(), rows.size_bytes() + adjustments.size_bytes());
}

CudaSamplingArguments CudaRowSampler::arguments(const Tensor& logits, size_t num_rows) const {
  const auto* input = static_cast<const std::byte*>(input_.data());
  auto* workspace = static_cast<std::byte*>(workspace_.data());
  const auto wanted_parts =
      std::clamp<int64_t>(int64_t{kSamplerBlocksPerMultiprocessor} * num_multiprocessors_ /
                              static_cast<int64_t>(num_rows),
                          1,
                          kMostSamplingParts);
  const int64_t part_size =
      std::max(kSmallestPart,
               ceil_div(ceil_div(vocab_size_, wanted_parts), kSegmentTokens) * kSegmentTokens);
  return {.logits = logits.data_as<float>(),
          .rows = reinterpret_cast<const SamplingRow*>(input),
          .adjustments =
              reinterpret_cast<const LogitAdjustment*>(input + num_rows * sizeof(SamplingRow)),
          .tokens = results_[num_launches_ % results_.size()].tokens,
          .states = reinterpret_cast<SamplingState*>(workspace + places_.states),
          .parts = reinterpret_cast<uint64_t*>(workspace + places_.parts),
          .segments = reinterpret_cast<uint64_t*>(workspace + places_.segments),
          .histograms = reinterpret_cast<uint64_t*>(workspace + places_.histograms),
          .candidates = reinterpret_cast<int32_t*>(workspace + places_.candidates),
          .counts = reinterpret_cast<uint32_t*>(workspace + places_.counts),
          .logprobs = results_[num_launches_ % results_.size()].logprobs,
          .count_stride = count_stride_,
          .vocab_size = vocab_size_,
          .part_size = part_size,
          .num_parts = static_cast<int32_t>(ceil_div(vocab_size_, part_size)),
          .num_segments = static_cast<int32_t>(ceil_div(vocab_size_, kSegmentTokens))};
}

void CudaRowSampler::launch(const Tensor& logits,
                            std::span<const SamplingRow> rows,
                            std::span<const LogitAdjustment> adjustments) {
  REPRISE_ASSERT(logits.dtype() == DType::f32 && logits.is_dense() && logits.size(1) == vocab_size_,
                 "the logits must be dense float32 rows of the vocabulary's size");
  REPRISE_ASSERT(num_launches_ - num_waits_ < results_.size(),
                 "launch() was called more often than tokens can wait; call wait() first");
  stage(rows, adjustments);
  const CudaSamplingArguments all = arguments(logits, rows.size());
  const auto blocks = static_cast<uint32_t>(rows.size()) * static_cast<uint32_t>(all.num_parts);
  const SamplingKernels kernels = sampling_kernels();
  const auto run = [&](const device::Kernel& kernel) {
    (void)kernels::launch(*stream_, kernel, blocks, all, std::array{writes(logits)});
  };
  const auto has_candidates = [this](const SamplingRow& row) {
    return row.temperature > 0 && (row.top_p < 1 || (row.top_k > 0 && row.top_k < vocab_size_));
  };
  run(*kernels.largest);
  if (std::ranges::any_of(rows, [](const SamplingRow& row) { return row.temperature > 0; }))
    run(*kernels.weights);
  if (std::ranges::any_of(rows, has_candidates)) run(*kernels.candidates);
  const auto most_logprobs = std::ranges::max(rows, {}, &SamplingRow::num_logprobs).num_logprobs;
  if (most_logprobs >= 0) run(*kernels.weigh_logprobs);
  if (most_logprobs > 0) run(*kernels.list_likeliest);
  Result& launched = result(num_launches_++);
  launched.num_rows = rows.size();
  launched.has_logprobs = most_logprobs >= 0;
  stream_->record(*launched.ready);
}

void CudaRowSampler::count_tokens(int32_t slot,
                                  std::span<const int32_t> prompt,
                                  std::span<const int32_t> output) {
  REPRISE_ASSERT(slot >= 0 && slot < num_count_slots_,
                 "count slot {} of a sampler with {}",
                 slot,
                 num_count_slots_);
  auto* counts =
      reinterpret_cast<uint32_t*>(static_cast<std::byte*>(workspace_.data()) + places_.counts) +
      slot * count_stride_;
  stream_->fill(counts, std::byte{0}, static_cast<size_t>(count_stride_) * sizeof(uint32_t));
  add_to_counts(counts, prompt, false);
  add_to_counts(counts, output, true);
}

void CudaRowSampler::add_to_counts(uint32_t* counts,
                                   std::span<const int32_t> tokens,
                                   bool are_output) {
  auto* on_device = reinterpret_cast<int32_t*>(static_cast<std::byte*>(workspace_.data()) +
                                               places_.counted_tokens);
  const device::Kernel& kernel = *sampling_kernels().count_tokens;
  const auto threads = static_cast<size_t>(kernel.cuda.threads_per_block);
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(tokens.size(), kCountedAtOnce))) {
    const auto some = tokens.first(std::min(tokens.size(), kCountedAtOnce));
    stream_->copy_from_host(on_device, some.data(), some.size_bytes());
    const CountTokensArguments arguments{.counts = counts,
                                         .tokens = on_device,
                                         .num_tokens = static_cast<int32_t>(some.size()),
                                         .are_output = are_output ? 1 : 0};
    (void)kernels::launch(*stream_,
                          kernel,
                          static_cast<uint32_t>((some.size() + threads - 1) / threads),
                          arguments,
                          std::array<device::BufferUse, 0>());
  }
}

void CudaRowSampler::write_tokens(const Tensor& ids, std::span<const TokenPlace> places) {
  REPRISE_ASSERT(num_launches_ > 0 && !places.empty() &&
                     places.size() <= static_cast<size_t>(max_rows_) && ids.dtype() == DType::i32,
                 "write_tokens() with {} tokens after {} launches: the number of tokens is wrong, "
                 "or the ids are not int32",
                 places.size(),
                 num_launches_);
  stream_->copy_from_host(token_places_.data(), places.data(), places.size_bytes());
  const WriteTokensArguments arguments{
      .ids = ids.data_as<int32_t>(),
      .tokens = result(num_launches_ - 1).tokens,
      .places = static_cast<const TokenPlace*>(token_places_.data()),
      .num_places = static_cast<int32_t>(places.size())};
  const device::Kernel& kernel = *sampling_kernels().write_tokens;
  const auto threads = static_cast<uint32_t>(kernel.cuda.threads_per_block);
  const auto blocks = (static_cast<uint32_t>(places.size()) + threads - 1) / threads;
  (void)kernels::launch(*stream_, kernel, blocks, arguments, std::array{writes(ids)});
}

std::span<const int32_t> CudaRowSampler::wait() {
  REPRISE_ASSERT(num_waits_ < num_launches_, "wait() without a launch");
  const Result& oldest = result(num_waits_++);
  host_tokens_.resize(oldest.num_rows);
  copies_->wait(*oldest.ready);
  copies_->copy_to_host(host_tokens_.data(), oldest.tokens, host_tokens_.size() * sizeof(int32_t));
  host_logprobs_.resize(oldest.has_logprobs ? oldest.num_rows : 0);
  if (oldest.has_logprobs) {
    copies_->copy_to_host(
        host_logprobs_.data(), oldest.logprobs, host_logprobs_.size() * sizeof(RowLogprobs));
  }
  return host_tokens_;
}

}  // namespace reprise::kernels::cuda
