#include "benchmarks/cuda_latents.h"

#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "benchmarks/cuda_gemm.h"
#include "benchmarks/cuda_read.h"

namespace reprise::benchmark {
namespace {

constexpr int64_t kLatent = 512;
constexpr int64_t kKey = 576;
// DeepSeek-V3's elements of a head without and with its part of the latent.
constexpr int64_t kHead = 128;

/// Which kernels a call gets. Those on the tensor cores want rows that are aligned to 16 bytes, so
/// queries that begin two bytes later are left to the plain ones.
enum class LatentKernels : uint8_t { on_tensor_cores, plain };

/// Operands of random numbers, and an op that runs several times in one graph.
class LatentOps {
 public:
  explicit LatentOps(const Gpu& gpu) : gpu_(gpu), execution_(*gpu.device, executor_of(gpu)) {}

  Tensor make(DType type, const Shape& shape, size_t skipped_bytes = 0) {
    const size_t bytes = TensorType{type, shape}.bytes();
    memory_.push_back(gpu_.device->allocate(bytes + 16));
    auto* data = static_cast<std::byte*>(memory_.back().data());
    return Tensor::borrow({type, shape}, data + skipped_bytes, execution_.executor());
  }
  Tensor numbers(const Shape& shape, LatentKernels kernels = LatentKernels::on_tensor_cores) {
    const Tensor tensor = make(DType::bf16, shape, kernels == LatentKernels::plain ? 2 : 0);
    fill_at_random(execution_.stream(), tensor);
    return tensor;
  }
  Tensor ints(const Shape& shape, const std::function<int32_t(int64_t)>& value) {
    const Tensor tensor = make(DType::i32, shape);
    std::vector<int32_t> values;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(value(i));
    execution_.stream().copy_from_host(tensor.data(), values.data(), values.size() * 4);
    return tensor;
  }
  /// \returns seconds of one
  double time(LatentKernels kernels,
              const OpCall& call,
              const std::vector<Tensor>& in,
              std::span<Tensor> out) {
    // A long prompt takes the plain kernels a tenth of a second.
    const bool is_plain = kernels == LatentKernels::plain;
    const int repeats = is_plain ? 2 : 10;
    device::Stream& stream = execution_.stream();
    execution_.executor().execute(call, in, out);
    stream.synchronize();
    device::CaptureScope capture(stream);
    for (int i = 0; i < repeats; ++i) execution_.executor().execute(call, in, out);
    const auto exec = gpu_.device->instantiate(*std::move(capture).finish());
    std::vector<double> seconds;
    for (int i = 0; i < (is_plain ? 3 : 10); ++i) {
      seconds.push_back(seconds_of([&] {
        exec->launch(stream);
        stream.synchronize();
      }));
    }
    return median(seconds) / repeats;
  }

 private:
  const Gpu& gpu_;
  runner::Execution execution_;
  std::vector<device::Buffer> memory_;
};

struct LatentBatch {
  int64_t heads;
  int32_t requests;
  int32_t tokens;   // of each request
  int32_t context;  // the same
};

double time_latents(const Gpu& gpu, const LatentBatch& batch, LatentKernels kernels) {
  LatentOps ops(gpu);
  const int64_t blocks = batch.context / kBlockSize;
  const int64_t num_blocks = blocks * batch.requests;
  const int64_t tokens = int64_t{batch.requests} * batch.tokens;
  OpCall call{.code = OpCode::mla_attention, .attributes = {}};
  call.attributes.scale = 1.0F / std::sqrt(static_cast<float>(kKey));
  const std::vector<Tensor> in = {
      ops.numbers({tokens, batch.heads, kKey}, kernels),
      ops.numbers({num_blocks, 1, int64_t{kBlockSize}, kKey}),
      ops.ints({batch.requests + 1},
               [&](int64_t i) { return static_cast<int32_t>(i * batch.tokens); }),
      ops.ints({int64_t{batch.requests}}, [&](int64_t) { return batch.context; }),
      ops.ints({int64_t{batch.requests}, blocks},
               [&](int64_t i) { return static_cast<int32_t>(i * 7919 % num_blocks); }),
      ops.make(DType::bf16, {tokens, batch.heads, kLatent}),
      {},
      {}};
  return ops.time(kernels, call, in, {});
}

/// The product of the queries, or of the values.
double time_head_product(
    const Gpu& gpu, int64_t rows, int64_t heads, bool is_of_queries, LatentKernels kernels) {
  LatentOps ops(gpu);
  const int64_t depth = is_of_queries ? kHead : kLatent;
  const int64_t columns = is_of_queries ? kLatent : kHead;
  std::array<Tensor, 1> out{ops.make(DType::bf16, {rows, heads, columns})};
  return ops.time(
      kernels,
      {.code = OpCode::head_linear, .attributes = {}},
      {ops.numbers({rows, heads, depth}, kernels), ops.numbers({heads, columns, depth})},
      out);
}

}  // namespace

void measure_latents(const Gpu& gpu, RowLog& log) {
  const double bandwidth = read_bandwidth(*gpu.device);
  constexpr std::array kBatches = {LatentBatch{16, 1, 1, 256},
                                   LatentBatch{16, 1, 1, 4096},
                                   LatentBatch{16, 1, 1, 32768},
                                   LatentBatch{16, 32, 1, 4096},
                                   LatentBatch{16, 256, 1, 1024},
                                   LatentBatch{16, 32, 4, 4096},
                                   LatentBatch{128, 1, 1, 4096},
                                   LatentBatch{128, 64, 1, 4096},
                                   LatentBatch{16, 1, 2048, 2048},
                                   LatentBatch{16, 1, 2048, 16384}};
  for (const LatentBatch& batch : kBatches) {
    const double once = time_latents(gpu, batch, LatentKernels::on_tensor_cores);
    const double plain = time_latents(gpu, batch, LatentKernels::plain);
    // A token of a prompt sees half of the step's tokens on average.
    const double seen =
        static_cast<double>(batch.context) - static_cast<double>(batch.tokens - 1) / 2;
    const double pairs = seen * static_cast<double>(batch.heads * batch.requests * batch.tokens);
    log.add("latent_attention",
            {{"heads", batch.heads},
             {"requests", batch.requests},
             {"tokens", batch.tokens},
             {"context", batch.context},
             {"microseconds", once * 1e6},
             {"plain_microseconds", plain * 1e6},
             {"share_of_bandwidth", 2.0 * kKey * batch.requests * batch.context / once / bandwidth},
             {"flops_per_second", 2.0 * (kKey + kLatent) * pairs / once}});
  }
  for (const int64_t rows : {1, 32, 512}) {
    for (const bool is_of_queries : {true, false}) {
      const auto time = [&](LatentKernels kernels) {
        return time_head_product(gpu, rows, 16, is_of_queries, kernels) * 1e6;
      };
      log.add("head_product",
              {{"rows", rows},
               {"heads", 16},
               {"of", is_of_queries ? "queries" : "values"},
               {"microseconds", time(LatentKernels::on_tensor_cores)},
               {"plain_microseconds", time(LatentKernels::plain)}});
    }
  }
}

}  // namespace reprise::benchmark
