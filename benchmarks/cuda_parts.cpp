#include "benchmarks/cuda_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "benchmarks/cuda_gemm.h"
#include "benchmarks/cuda_read.h"
#include "reprise/kernels/row_sampler.h"

namespace reprise::benchmark {
namespace {

constexpr int64_t kHeads = 32;
using kernels::AttentionSource;

constexpr int64_t kKvHeads = 8;
constexpr int64_t kHeadDim = 128;

std::vector<int64_t> first_blocks_of(const std::vector<int32_t>& contexts) {
  std::vector<int64_t> first_blocks;
  for (int64_t next = 0; const int32_t context : contexts) {
    first_blocks.push_back(next);
    next += context / kBlockSize;
  }
  return first_blocks;
}

/// Attention alone, of the last `query_len` tokens of each context, several times in one graph.
/// \returns seconds of one
double time_attention(const Gpu& gpu,
                      const std::vector<int32_t>& contexts,
                      int32_t query_len,
                      AttentionSource source = kernels::ExecutorOptions{}.attention) {
  constexpr int kRepeats = 20;
  const auto requests = static_cast<int32_t>(contexts.size());
  runner::Execution execution(*gpu.device, executor_of(gpu, source));
  OpExecutor& executor = execution.executor();
  const auto context_of = [&](int64_t i) { return contexts.at(static_cast<size_t>(i)); };
  const int64_t blocks_per_req = *std::ranges::max_element(contexts) / kBlockSize;
  const int64_t num_blocks =
      std::accumulate(contexts.begin(), contexts.end(), int64_t{0}) / kBlockSize;
  const std::vector<int64_t> first_blocks = first_blocks_of(contexts);
  std::vector<device::Buffer> memory;
  const auto make = [&](DType type, const Shape& shape) {
    memory.push_back(gpu.device->allocate(TensorType{type, shape}.bytes()));
    return Tensor::borrow({type, shape}, memory.back().data(), executor);
  };
  const auto ints = [&](const Shape& shape, const std::function<int32_t(int64_t)>& value) {
    const Tensor tensor = make(DType::i32, shape);
    std::vector<int32_t> values;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(value(i));
    execution.stream().copy_from_host(tensor.data(), values.data(), values.size() * 4);
    return tensor;
  };
  const Shape cache{num_blocks, kKvHeads, int64_t{kBlockSize}, kHeadDim};
  const Shape tokens{int64_t{requests} * query_len, kHeads, kHeadDim};
  const Tensor q = make(DType::bf16, tokens);
  const Tensor keys = make(DType::bf16, cache);
  const Tensor values = make(DType::bf16, cache);
  // 0x3c3c is a small number; memory as it comes would be zeros.
  for (const Tensor& tensor : {q, keys, values}) {
    execution.stream().fill(tensor.data(), std::byte{0x3c}, tensor.type().bytes());
  }
  const std::array<Tensor, 7> inputs{
      q,
      keys,
      values,
      ints({requests + 1}, [&](int64_t i) { return static_cast<int32_t>(i * query_len); }),
      ints({int64_t{requests}}, context_of),
      ints({int64_t{requests}, blocks_per_req},
           [&](int64_t i) {
             const int64_t block =
                 first_blocks.at(static_cast<size_t>(i / blocks_per_req)) + i % blocks_per_req;
             return static_cast<int32_t>(block * 7919 % num_blocks);
           }),
      make(DType::bf16, tokens)};
  OpCall call{.code = OpCode::attention, .attributes = {}};
  call.attributes.scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim));
  device::Stream& stream = execution.stream();
  device::CaptureScope capture(stream);
  for (int i = 0; i < kRepeats; ++i) executor.execute(call, inputs, {});
  const auto exec = gpu.device->instantiate(*std::move(capture).finish());
  std::vector<double> seconds;
  for (int i = 0; i < 30; ++i) {
    seconds.push_back(seconds_of([&] {
      exec->launch(stream);
      stream.synchronize();
    }));
  }
  return median(seconds) / kRepeats;
}

/// One request with `context` positions, and the others with `others`.
Json measure_decode_attention(
    const Gpu& gpu, int32_t requests, int32_t context, int32_t others, double bandwidth) {
  std::vector<int32_t> contexts(static_cast<size_t>(requests), others);
  contexts.back() = context;
  const double once = time_attention(gpu, contexts, 1);
  // Keys and values of 16 bits, each read once.
  const double positions = context + (requests - 1.0) * others;
  const double bytes = 2.0 * 2.0 * kKvHeads * kHeadDim * positions;
  return {{"requests", requests},
          {"context", context},
          {"others", others},
          {"microseconds", once * 1e6},
          {"share_of_bandwidth", bytes / once / bandwidth}};
}

/// Matrix products of the 8B shape for decode batches.
void measure_products(const Gpu& gpu, double bandwidth, RowLog& log) {
  for (const auto& [columns, depth] : {std::pair<int64_t, int64_t>{28672, 4096}, {4096, 14336}}) {
    for (const int64_t rows : {1, 8, 16, 32, 64, 128}) {
      const double seconds = product_seconds(gpu, rows, columns, depth);
      const auto bytes = static_cast<double>(2 * columns * depth);
      log.add("product",
              {{"rows", rows},
               {"columns", columns},
               {"depth", depth},
               {"microseconds", seconds * 1e6},
               {"share_of_bandwidth", bytes / seconds / bandwidth}});
    }
  }
}

/// The same with weights of eight bits, and the rows of prompts.
void measure_eight_bit_products(const Gpu& gpu, double bandwidth, RowLog& log) {
  for (const auto& [columns, depth] : {std::pair<int64_t, int64_t>{28672, 4096}, {4096, 14336}}) {
    for (const PanelFormat codec :
         {PanelFormat::f8e4m3_rows, PanelFormat::f8e4m3_g128, PanelFormat::int8_rows}) {
      for (const int64_t rows : {1, 16, 64, 65, 512, 4096}) {
        const double seconds = product_seconds(gpu, rows, columns, depth, codec);
        const auto products = static_cast<double>(rows * columns * depth);
        const auto bytes = static_cast<double>(columns * layout_of(codec, depth).row_bytes);
        log.add("eight_bit_product",
                {{"codec", std::string(codec_name(codec))},
                 {"rows", rows},
                 {"columns", columns},
                 {"depth", depth},
                 {"microseconds", seconds * 1e6},
                 {"flops_per_second", 2 * products / seconds},
                 {"share_of_bandwidth", bytes / seconds / bandwidth}});
      }
    }
  }
}

/// In a prompt each token sees the tokens before it, so half of all products are computed.
Json measure_prompt_attention(const Gpu& gpu, int32_t tokens) {
  const double once = time_attention(gpu, {tokens}, tokens);
  const double flops = 4.0 * kHeads * kHeadDim * tokens * tokens / 2;
  return {{"tokens", tokens}, {"microseconds", once * 1e6}, {"flops_per_second", flops / once}};
}

/// Time to give an executable graph of many small launches other arguments.
Json measure_update(const Gpu& gpu) {
  constexpr int kNodes = 200;
  runner::Execution execution(*gpu.device, executor_of(gpu));
  const device::Buffer memory = gpu.device->allocate(1 << 20);
  const Tensor x = Tensor::borrow({DType::bf16, {64, 1024}}, memory.data(), execution.executor());
  const auto record = [&] {
    device::CaptureScope capture(execution.stream());
    for (int i = 0; i < kNodes; ++i) {
      std::array<Tensor, 1> out;
      execution.executor().execute({.code = OpCode::add, .attributes = {}}, std::array{x, x}, out);
    }
    return std::move(capture).finish();
  };
  const auto graph = record();
  const auto exec = gpu.device->instantiate(*graph);
  std::vector<double> seconds;
  bool is_updated = true;
  for (int i = 0; i < 20; ++i) {
    const auto other = record();
    seconds.push_back(seconds_of([&] { is_updated = exec->update(*other) && is_updated; }));
  }
  return {{"nodes", kNodes}, {"milliseconds", median(seconds) * 1e3}, {"updated", is_updated}};
}

constexpr int64_t kVocabulary = 151936;

struct SamplingKind {
  const char* name;
  kernels::SamplingRow row;
};

/// Logits as a model gives them: a bell, and a few tokens that stand out.
device::Buffer make_logits(const Gpu& gpu, device::Stream& stream, int32_t rows) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 2.5F);
  std::vector<float> logits(static_cast<size_t>(kVocabulary));
  for (float& logit : logits) logit = normal(random);
  for (size_t i = 11; i < logits.size(); i += 7001) logits[i] += 12;
  device::Buffer memory = gpu.device->allocate(static_cast<size_t>(rows) * logits.size() * 4);
  for (int32_t row = 0; row < rows; ++row) {
    auto* place = static_cast<float*>(memory.data()) + row * kVocabulary;
    stream.copy_from_host(place, logits.data(), logits.size() * 4);
  }
  return memory;
}

Json measure_sampler(const Gpu& gpu, const SamplingKind& kind, int32_t rows) {
  runner::Execution execution(*gpu.device, executor_of(gpu));
  device::Stream& stream = execution.stream();
  const auto sampler = gpu.accelerator->create_row_sampler(stream, rows, kVocabulary, rows);
  const device::Buffer memory = make_logits(gpu, stream, rows);
  const Tensor logits = Tensor::borrow(
      {DType::f32, {int64_t{rows}, kVocabulary}}, memory.data(), execution.executor());
  std::vector<kernels::SamplingRow> all(static_cast<size_t>(rows), kind.row);
  for (int32_t i = 0; i < rows; ++i) {
    all[static_cast<size_t>(i)].seed = static_cast<uint64_t>(i);
    all[static_cast<size_t>(i)].logits_row = i;
    if (kind.row.repetition_penalty == 1) continue;
    std::vector<int32_t> prompt(1000);
    for (size_t n = 0; n < prompt.size(); ++n) prompt[n] = static_cast<int32_t>(n * 97) + i;
    const int32_t slot = i % sampler->num_count_slots();
    sampler->count_tokens(slot, prompt, {});
    all[static_cast<size_t>(i)].count_slot = slot;
  }
  // From the launch to the tokens on the host. A sampler has room for two launches at a time.
  constexpr int kLaunches = 20;
  std::vector<double> seconds;
  for (int i = 0; i < 12; ++i) {
    const double time = seconds_of([&] {
      for (int launch = 0; launch < kLaunches; ++launch) {
        sampler->launch(logits, all, {});
        (void)sampler->wait();
      }
    });
    if (i >= 2) seconds.push_back(time / kLaunches);
  }
  return {{"kind", kind.name}, {"rows", rows}, {"microseconds", median(seconds) * 1e6}};
}

}  // namespace

void measure_parts(const Gpu& gpu, RowLog& log) {
  const double bandwidth = read_bandwidth(*gpu.device);
  log.add("read_bandwidth", {{"bytes_per_second", bandwidth}});
  log.add("attention", measure_decode_attention(gpu, 1, 32768, 0, bandwidth));
  log.add("attention", measure_decode_attention(gpu, 32, 4096, 4096, bandwidth));
  log.add("attention", measure_decode_attention(gpu, 256, 32768, 1024, bandwidth));
  log.add("prompt_attention", measure_prompt_attention(gpu, 4096));
  measure_products(gpu, bandwidth, log);
  measure_eight_bit_products(gpu, bandwidth, log);
  log.add("gemm_peak", {{"flops_per_second", gemm_peak(gpu)}});
  log.add("update", measure_update(gpu));
}

void measure_attention(const Gpu& gpu, RowLog& log) {
  const double bandwidth = read_bandwidth(*gpu.device);
  const auto add = [&](const char* what, int32_t requests, int32_t context, int32_t query_len) {
    const std::vector<int32_t> contexts(static_cast<size_t>(requests), context);
    const double own = time_attention(gpu, contexts, query_len, AttentionSource::own);
    Json row = {{"requests", requests}, {"context", context}, {"own_microseconds", own * 1e6}};
    if (gpu.accelerator->has_library_attention()) {
      const double library = time_attention(gpu, contexts, query_len, AttentionSource::library);
      row["flashinfer_microseconds"] = library * 1e6;
      if (query_len == 1) {
        const double bytes = 4.0 * kKvHeads * kHeadDim * requests * context;
        row["flashinfer_share_of_bandwidth"] = bytes / library / bandwidth;
      } else {
        const double flops = 2.0 * kHeads * kHeadDim * context * context;
        row["flashinfer_flops_per_second"] = flops / library;
      }
    }
    log.add(what, row);
  };
  for (const int32_t context : {256, 1024, 4096, 32768}) add("decode_attention", 1, context, 1);
  for (const int32_t requests : {8, 32, 256}) add("decode_attention", requests, 1024, 1);
  for (const int32_t tokens : {256, 1024, 4096, 16384}) add("prompt", 1, tokens, tokens);
}

void measure_sampling(const Gpu& gpu, RowLog& log) {
  constexpr double kOff = -std::numeric_limits<double>::infinity();
  const std::array kinds = {
      SamplingKind{"greedy", {.min_p_edge = kOff}},
      SamplingKind{"temperature", {.min_p_edge = kOff, .temperature = 0.8F}},
      SamplingKind{"top_k_top_p",  // Qwen3's generation config
                   {.min_p_edge = kOff, .temperature = 0.6F, .top_p = 0.95F, .top_k = 20}},
      SamplingKind{"top_p", {.min_p_edge = kOff, .temperature = 0.8F, .top_p = 0.9F}},
      SamplingKind{"penalty",  // Qwen2.5's generation config
                   {.min_p_edge = kOff,
                    .temperature = 0.7F,
                    .top_p = 0.8F,
                    .top_k = 20,
                    .repetition_penalty = 1.05F}},
      SamplingKind{"logprobs", {.min_p_edge = kOff, .num_logprobs = 20}}};
  for (const int32_t rows : {1, 8, 64, 256}) {
    for (const SamplingKind& kind : kinds) log.add("sampling", measure_sampler(gpu, kind, rows));
  }
}

}  // namespace reprise::benchmark
