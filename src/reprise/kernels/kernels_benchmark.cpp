#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/eager_executor.h"
#include "reprise/kernels/reference.h"
#include "reprise/tensor/ops.h"

// Time of one eager op on a device, launch included. GB/s counts what the op must read and write
// once, GFLOP/s counts multiplications and additions. Weights are "cold": a ring of copies larger
// than the caches of most machines takes turns, as the layers of a model do. Run with
// --benchmark_repetitions=7 and quote the median.

namespace reprise::kernels {
namespace {

constexpr size_t kRingBytes = size_t{128} << 20;

class Bench {
 public:
  Bench(Isa isa, int threads)
      : device_(device::create_cpu_device({.num_threads = threads})),
        stream_(device_->create_stream()),
        pool_(device_->create_pool()),
        executor_(*stream_, *pool_, kernel_table(isa)) {}

  Tensor make(TensorType type) {
    buffers_.push_back(device_->allocate(type.bytes()));
    return Tensor::borrow(type, buffers_.back().data(), executor_);
  }
  // Values do not matter to the time as long as they are normal numbers.
  Tensor random(Shape shape, DType dtype) {
    Tensor tensor = make({dtype, shape});
    const int64_t width = shape[-1];
    for (const RowIndex& row : all_rows(tensor)) {
      for (int64_t i = 0; i < width; ++i) {
        set_row_element(tensor, static_cast<double>(random_() % 1024) / 1024.0 - 0.5, row, i);
      }
    }
    return tensor;
  }
  // `tensor` and copies of it, together beyond the caches.
  std::vector<Tensor> ring(const Tensor& tensor) {
    std::vector<Tensor> tensors = {tensor};
    while (tensors.size() * tensor.type().bytes() < kRingBytes) {
      tensors.push_back(make(tensor.type()));
      stream_->copy(tensors.back().data(), tensor.data(), tensor.type().bytes());
    }
    return tensors;
  }
  Tensor ints(Shape shape, const std::vector<int>& values) {
    Tensor tensor = make({DType::i32, shape});
    std::copy(values.begin(), values.end(), tensor.data_as<int32_t>());
    return tensor;
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> pool_;
  EagerExecutor executor_;
  std::vector<device::Buffer> buffers_;
  std::minstd_rand random_{1};
};

void report(benchmark::State& state, double bytes, double operations) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, rate);
  state.counters["GFLOP/s"] = benchmark::Counter(operations / 1e9, rate);
}

struct Setup {
  Isa isa;
  DType dtype;
  int threads;
};

void bench_linear(benchmark::State& state, Setup setup, int64_t in, int64_t out) {
  Bench bench(setup.isa, setup.threads);
  const int64_t rows = state.range(0);
  const Tensor x = bench.random({rows, in}, setup.dtype);
  const std::vector<Tensor> weights = bench.ring(bench.random({out, in}, setup.dtype));
  size_t turn = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ops::linear(x, weights[turn++ % weights.size()]));
  }
  const auto elements = static_cast<double>(rows * in + rows * out + in * out);
  report(state,
         elements * static_cast<double>(dtype_bytes(setup.dtype)),
         2.0 * static_cast<double>(rows * in * out));
}

// Decode of one request of a 14-head, 2-kv-head model with head_dim 64.
void bench_attention(benchmark::State& state, Setup setup, int query) {
  Bench bench(setup.isa, setup.threads);
  const auto context = static_cast<int>(state.range(0));
  const int blocks = (context + 15) / 16;
  const Tensor cache = bench.random({blocks, 2, 16, 64}, setup.dtype);
  const std::vector<Tensor> keys = bench.ring(cache);
  const std::vector<Tensor> values = bench.ring(cache);
  const Tensor q = bench.random({query, 14, 64}, setup.dtype);
  const Tensor out = bench.make(q.type());
  std::vector<int> table(static_cast<size_t>(blocks));
  for (int i = 0; i < blocks; ++i) table[static_cast<size_t>(i)] = (i * 7) % blocks;
  const ops::AttentionArguments arguments = {.query_start_loc = bench.ints({2}, {0, query}),
                                             .seq_lens = bench.ints({1}, {context}),
                                             .block_table = bench.ints({1, blocks}, table),
                                             .scale = 0.125F};
  size_t turn = 0;
  for (auto _ : state) {
    const size_t i = turn++ % keys.size();
    ops::attention(q, keys[i], values[i], arguments, out);
  }
  const double pairs = static_cast<double>(query) * (context - (query - 1) / 2.0);
  report(state,
         2.0 * context * 2 * 64 * static_cast<double>(dtype_bytes(setup.dtype)),
         pairs * 14 * 64 * 4);
}

void bench_rms_norm(benchmark::State& state, Setup setup) {
  Bench bench(setup.isa, setup.threads);
  const int64_t rows = state.range(0);
  const Tensor x = bench.random({rows, 896}, setup.dtype);
  const Tensor weight = bench.random({896}, setup.dtype);
  for (auto _ : state) benchmark::DoNotOptimize(ops::rms_norm(x, weight, 1e-6F));
  const auto elements = static_cast<double>(rows * 896);
  report(state, 2 * elements * static_cast<double>(dtype_bytes(setup.dtype)), 4 * elements);
}

void register_all() {
  const device::CpuFeatures features = device::detect_cpu_features();
  for (int threads : {1, 2}) {
    for (Isa isa : supported_isas(features)) {
      for (DType dtype : {DType::bf16, DType::f32, DType::f16}) {
        const Setup setup = {isa, dtype, threads};
        const std::string suffix = std::string("/") + std::string(isa_name(isa)) + "/" +
                                   std::string(dtype_name(dtype)) +
                                   "/threads:" + std::to_string(threads);
        const auto add =
            [&](const std::string& name, auto function, std::vector<int64_t> arguments) {
              auto* registered = benchmark::RegisterBenchmark((name + suffix).c_str(), function);
              for (int64_t argument : arguments) registered->Arg(argument);
              registered->UseRealTime();
            };
        const std::vector<int64_t> rows = {1, 4, 16, 64, 512};
        add(
            "linear_896x4864", [=](auto& state) { bench_linear(state, setup, 896, 4864); }, rows);
        add(
            "linear_128x384", [=](auto& state) { bench_linear(state, setup, 128, 384); }, rows);
        add("decode", [=](auto& state) { bench_attention(state, setup, 1); }, {512, 4096});
        add("prefill", [=](auto& state) { bench_attention(state, setup, 512); }, {512, 4096});
        add("rms_norm_896", [=](auto& state) { bench_rms_norm(state, setup); }, {1, 512});
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernels

int main(int argc, char** argv) {
  reprise::kernels::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
