#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/tensor/column_panels.h"
#include "reprise/tensor/ops.h"
#include "reprise/tensor/packed_weight.h"
#include "tests/support/kernels/reference.h"

// Measures the time of one eager op on a device, including its launch. GB/s counts the bytes that
// the op must read and write once, GFLOP/s counts multiplications and additions. Weights are
// "cold": the op takes turns with several copies, together larger than the caches of most machines,
// like the layers of a model. Run with --benchmark_repetitions=7 and quote the median; add
// --benchmark_enable_random_interleaving=true to compare two forms on a machine that is not idle.

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
  // The values do not influence the time, as long as they are normal numbers.
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
  // Returns `tensor` and copies of it, together larger than the caches.
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
  // Lets several workers compute the segments of a long context of `heads` heads.
  void divide_contexts(int64_t heads, int64_t value_dim) {
    AttentionPath path;
    path.segment_sums = make({DType::f32, {64 * heads * (value_dim + 2)}});
    path.segment_counters = ints({64 * heads}, std::vector<int>(static_cast<size_t>(64 * heads)));
    executor_.set_attention(path);
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> pool_;
  CpuExecutor executor_;
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

// The same with a weight in panels, as models load it.
void bench_linear_panels(benchmark::State& state, Setup setup, int64_t in, int64_t out) {
  Bench bench(setup.isa, setup.threads);
  const int64_t rows = state.range(0);
  const Tensor x = bench.random({rows, in}, DType::bf16);
  const Tensor matrix = bench.random({out, in}, DType::bf16);
  pack_column_panels({matrix.data_as<std::byte>(), matrix.type().bytes()}, out, in);
  const Tensor panels = bench.make({DType::bf16, {out, in}, column_panels_layout()});
  std::copy_n(matrix.data_as<std::byte>(), matrix.type().bytes(), panels.data_as<std::byte>());
  const std::vector<Tensor> weights = bench.ring(panels);
  size_t turn = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ops::linear(x, weights[turn++ % weights.size()]));
  }
  report(state,
         2.0 * static_cast<double>(rows * in + rows * out + in * out),
         2.0 * static_cast<double>(rows * in * out));
}

// Attention of one request of a model of 14 heads with head_dim 64.
void bench_attention(
    benchmark::State& state, Setup setup, int query, DType cache_type, int64_t kv_heads) {
  Bench bench(setup.isa, setup.threads);
  const auto context = static_cast<int>(state.range(0));
  const int blocks = (context + 15) / 16;
  const int64_t row = cache_type == DType::i8 ? 68 : 64;
  const Tensor cache = bench.random({blocks, kv_heads, 16, row}, cache_type);
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
  bench.divide_contexts(14, 64);
  size_t turn = 0;
  for (auto _ : state) {
    const size_t i = turn++ % keys.size();
    ops::attention(q, keys[i], values[i], arguments, out);
  }
  const double pairs = static_cast<double>(query) * (context - (query - 1) / 2.0);
  const auto elements = static_cast<double>(2 * context * kv_heads * row);
  report(state, elements * static_cast<double>(dtype_bytes(cache_type)), pairs * 14 * 64 * 4);
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

// A fused op, or the ops that it combines one after the other, on the same operands.
enum class Form : uint8_t { fused, apart };

Tensor execute(OpCode code,
               const OpAttributes& attributes,
               const std::vector<Tensor>& inputs,
               size_t num_outputs = 1) {
  std::array<Tensor, kMaxOpOutputs> outputs;
  inputs[0].executor().execute({code, attributes}, inputs, std::span(outputs).first(num_outputs));
  return outputs[0];
}

struct LayerShape {
  int64_t hidden;
  int64_t intermediate;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
};

void bench_linear_add(benchmark::State& state, Setup setup, LayerShape shape, Form form) {
  Bench bench(setup.isa, setup.threads);
  const int64_t rows = state.range(0);
  const Tensor x = bench.random({rows, shape.intermediate}, setup.dtype);
  const Tensor residual = bench.random({rows, shape.hidden}, setup.dtype);
  const auto weights = bench.ring(bench.random({shape.hidden, shape.intermediate}, setup.dtype));
  size_t turn = 0;
  for (auto _ : state) {
    const Tensor& weight = weights[turn++ % weights.size()];
    if (form == Form::fused) {
      execute(OpCode::linear_add, {}, {x, weight, {}, residual, {}});
    } else {
      benchmark::DoNotOptimize(ops::add(residual, ops::linear(x, weight)));
    }
  }
}

void bench_linear_silu_and_mul(benchmark::State& state, Setup setup, LayerShape shape, Form form) {
  Bench bench(setup.isa, setup.threads);
  const Tensor x = bench.random({state.range(0), shape.hidden}, setup.dtype);
  const auto weights =
      bench.ring(bench.random({2 * shape.intermediate, shape.hidden}, setup.dtype));
  size_t turn = 0;
  for (auto _ : state) {
    const Tensor& weight = weights[turn++ % weights.size()];
    if (form == Form::fused) {
      execute(OpCode::linear_silu_and_mul, {}, {x, weight, {}, {}, {}});
    } else {
      benchmark::DoNotOptimize(ops::silu_and_mul(ops::linear(x, weight)));
    }
  }
}

// The cache into which a batch writes its heads.
struct CacheBench {
  Tensor positions;
  Tensor cos_sin;
  Tensor key_cache;
  Tensor value_cache;
  Tensor slots;
  Tensor norm;
};

CacheBench make_cache(Bench& bench, Setup setup, LayerShape shape, int64_t rows) {
  std::vector<int> count(static_cast<size_t>(rows));
  for (int i = 0; i < static_cast<int>(rows); ++i) count[static_cast<size_t>(i)] = i;
  const Shape cache = {rows / 16 + 1, shape.kv_heads, 16, shape.head_dim};
  return {.positions = bench.ints({rows}, count),
          .cos_sin = bench.random({rows, shape.head_dim}, DType::f32),
          .key_cache = bench.random(cache, setup.dtype),
          .value_cache = bench.random(cache, setup.dtype),
          .slots = bench.ints({rows}, count),
          .norm = bench.random({shape.head_dim}, setup.dtype)};
}

// Norms of q and k, rope and kv_write, applied to the columns of a product.
void rope_and_write(const Tensor& qkv, LayerShape shape, const CacheBench& cache, Form form) {
  const auto part = [&](int64_t first_head, int64_t heads) {
    return ops::unflatten(ops::slice(qkv, 1, first_head * shape.head_dim, heads * shape.head_dim),
                          heads);
  };
  const Tensor q = part(0, shape.heads);
  const Tensor k = part(shape.heads, shape.kv_heads);
  const Tensor v = part(shape.heads + shape.kv_heads, shape.kv_heads);
  if (form == Form::fused) {
    execute(OpCode::rope_kv_write,
            {.epsilon = 1e-6F},
            {q,
             k,
             v,
             cache.positions,
             cache.cos_sin,
             cache.key_cache,
             cache.value_cache,
             cache.slots,
             cache.norm,
             cache.norm});
    return;
  }
  const auto [q_out, k_out] = ops::rope(ops::rms_norm(q, cache.norm, 1e-6F),
                                        ops::rms_norm(k, cache.norm, 1e-6F),
                                        cache.positions,
                                        cache.cos_sin);
  ops::kv_write(k_out, v, cache.key_cache, cache.value_cache, cache.slots);
}

void bench_rope_kv_write(benchmark::State& state, Setup setup, LayerShape shape, Form form) {
  Bench bench(setup.isa, setup.threads);
  const int64_t rows = state.range(0);
  const int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  const Tensor qkv = bench.random({rows, width}, setup.dtype);
  const CacheBench cache = make_cache(bench, setup, shape, rows);
  for (auto _ : state) rope_and_write(qkv, shape, cache, form);
}

void bench_linear_rope_kv_write(benchmark::State& state, Setup setup, LayerShape shape, Form form) {
  Bench bench(setup.isa, setup.threads);
  const int64_t rows = state.range(0);
  const int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  const Tensor x = bench.random({rows, shape.hidden}, setup.dtype);
  const auto weights = bench.ring(bench.random({width, shape.hidden}, setup.dtype));
  const CacheBench cache = make_cache(bench, setup, shape, rows);
  size_t turn = 0;
  for (auto _ : state) {
    const Tensor& weight = weights[turn++ % weights.size()];
    if (form == Form::fused) {
      execute(OpCode::linear_rope_kv_write,
              {.epsilon = 1e-6F, .length = shape.heads},
              {x,
               weight,
               {},
               cache.positions,
               cache.cos_sin,
               cache.key_cache,
               cache.value_cache,
               cache.slots,
               cache.norm,
               cache.norm,
               {}});
    } else {
      rope_and_write(ops::linear(x, weight), shape, cache, Form::apart);
    }
  }
}

// A linear of eight bits, to be compared with linear_896x4864.
void bench_scaled_linear(benchmark::State& state, Setup setup, DType eight_bits) {
  Bench bench(setup.isa, setup.threads);
  const int64_t rows = state.range(0);
  const Tensor x = bench.make({eight_bits, {rows, 896}});
  const Tensor weight = bench.make({eight_bits, {4864, 896}});
  std::fill_n(x.data_as<int8_t>(), x.num_elements(), int8_t{0x31});
  std::fill_n(weight.data_as<int8_t>(), weight.num_elements(), int8_t{0x2C});
  const std::vector<Tensor> weights = bench.ring(weight);
  const Tensor scale = bench.random({rows}, DType::f32);
  const Tensor weight_scale = bench.random({4864}, DType::f32);
  const OpAttributes attributes = {.type = {setup.dtype, {}}};
  size_t turn = 0;
  for (auto _ : state) {
    const Tensor& w = weights[turn++ % weights.size()];
    execute(OpCode::scaled_linear, attributes, {x, scale, w, weight_scale, {}});
  }
  report(state,
         static_cast<double>((rows + 4864) * 896),
         2.0 * static_cast<double>(rows * 896 * 4864));
}

// A product with a packed weight whose codes and scales are zero; it takes as long as with other
// values.
void bench_block_linear(
    benchmark::State& state, Setup setup, PanelFormat format, int64_t in, int64_t out) {
  Bench bench(setup.isa, setup.threads);
  const int64_t rows = state.range(0);
  const PanelPart part = {.format = format, .columns = out};
  const Tensor weight = bench.make(packed_weight_type({&part, 1}, in, setup.dtype));
  const PanelHeader header = make_panel_header({&part, 1}, in);
  std::memcpy(weight.data(), &header, sizeof header);
  const std::vector<Tensor> weights = bench.ring(weight);
  const Tensor x = bench.make({DType::i8, {rows, in / 32 * 40}});
  size_t turn = 0;
  for (auto _ : state) {
    const Tensor& w = weights[turn++ % weights.size()];
    benchmark::DoNotOptimize(ops::linear(x, w));
  }
  report(state,
         static_cast<double>(weight.type().bytes() + x.type().bytes()),
         2.0 * static_cast<double>(rows * in * out));
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
        add("linear_896x4864", [=](auto& state) { bench_linear(state, setup, 896, 4864); }, rows);
        if (dtype == DType::bf16) {
          add(
              "linear_panels_896x9728",
              [=](auto& state) { bench_linear_panels(state, setup, 896, 9728); },
              rows);
          add(
              "linear_panels_4864x896",
              [=](auto& state) { bench_linear_panels(state, setup, 4864, 896); },
              rows);
        }
        add("linear_128x384", [=](auto& state) { bench_linear(state, setup, 128, 384); }, rows);
        const std::pair<const char*, PanelFormat> formats[] = {{"q8_0", PanelFormat::q8_0},
                                                               {"q4_0", PanelFormat::q4_0},
                                                               {"q4_k", PanelFormat::q4_k},
                                                               {"q6_k", PanelFormat::q6_k}};
        for (const auto& [format_name, format] : formats) {
          add(std::string("block_linear_1024x4864_") + format_name,
              [=](auto& state) { bench_block_linear(state, setup, format, 1024, 4864); },
              {1, 4, 8, 16, 24, 32, 64, 128, 512});
        }
        for (DType cache : {dtype, DType::f8e4m3, DType::i8}) {
          const std::string name =
              cache == dtype ? std::string() : "_" + std::string(dtype_name(cache)) + "_cache";
          const auto bench = [=](int query, int64_t kv_heads = 2) {
            return [=](auto& state) { bench_attention(state, setup, query, cache, kv_heads); };
          };
          add("decode" + name, bench(1), {512, 4096, 16384});
          add("decode_1_kv_head" + name, bench(1, 1), {512, 4096, 16384});
          add("prefill" + name, bench(512), {512, 4096});
        }
        add("rms_norm_896", [=](auto& state) { bench_rms_norm(state, setup); }, {1, 512});
        const auto add_layer = [&](const std::string& size, LayerShape shape) {
          for (Form form : {Form::fused, Form::apart}) {
            const std::string name = size + (form == Form::fused ? "/fused" : "/apart");
            const auto add_op = [&](const std::string& op, auto function) {
              add(op + name, [=](auto& state) { function(state, setup, shape, form); }, {1, 512});
            };
            add_op("linear_add_", bench_linear_add);
            add_op("linear_silu_and_mul_", bench_linear_silu_and_mul);
            add_op("rope_kv_write_", bench_rope_kv_write);
            add_op("linear_rope_kv_write_", bench_linear_rope_kv_write);
          }
        };
        add_layer(
            "896",
            {.hidden = 896, .intermediate = 4864, .heads = 14, .kv_heads = 2, .head_dim = 64});
        add_layer(
            "4096",
            {.hidden = 4096, .intermediate = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128});
        add(
            "scaled_linear_i8_896x4864",
            [=](auto& state) { bench_scaled_linear(state, setup, DType::i8); },
            rows);
        add(
            "scaled_linear_f8_896x4864",
            [=](auto& state) { bench_scaled_linear(state, setup, DType::f8e4m3); },
            rows);
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
