#include "benchmarks/cuda_streamed.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "benchmarks/cuda_gemm.h"
#include "reprise/kernels/tunable_products.h"

namespace reprise::benchmark {
namespace {

using kernels::ProductChoice;

struct NamedProduct {
  const char* name;
  int64_t columns;
  int64_t depth;
};

std::vector<NamedProduct> products_of(const char* shape) {
  const weights::ModelConfig config =
      weights::parse_model_config(config_of(shape), "config").config;
  const int64_t hidden = config.hidden_size;
  const int64_t q = config.num_attention_heads * config.head_dim;
  const int64_t kv = config.num_key_value_heads * config.head_dim;
  return {{"qkv", q + 2 * kv, hidden},
          {"o", hidden, q},
          {"gate_up", 2 * config.intermediate_size, hidden},
          {"down", hidden, config.intermediate_size},
          {"head", config.vocab_size, hidden}};
}

/// One product with several weights, which take turns, so that each comes from memory.
class ProductChain {
 public:
  ProductChain(const Gpu& gpu, const NamedProduct& product, int64_t rows)
      : gpu_(&gpu), execution_(*gpu.device, executor_of(gpu)), product_(product), rows_(rows) {
    // More than twice the second-level cache of an H200 (50 MiB), and at most 16 weights.
    constexpr int64_t kColdBytes = 150'000'000;
    const int64_t bytes = 2 * product.columns * product.depth;
    const int64_t count = std::clamp<int64_t>(kColdBytes / bytes + 1, 1, 16);
    x_ = make({rows, product.depth});
    for (int64_t i = 0; i < count; ++i) weights_.push_back(make({product.columns, product.depth}));
    out_ = make({rows, product.columns});
    // A graph takes 7 us more than its nodes; half a millisecond of products makes this 1.4 %.
    constexpr int64_t kChainBytes = 2'000'000'000;
    num_calls_ = std::clamp<int64_t>(kChainBytes / bytes, 4, 400);
  }

  /// Microseconds of one product.
  [[nodiscard]] double time(const ProductChoice& choice) {
    kernels::ProductTable table;
    table.set({.op = OpCode::linear,
               .columns = product_.columns,
               .depth = product_.depth,
               .x_stride = product_.depth},
              rows_,
              {.choice = choice, .microseconds = 1, .built_in_microseconds = 1});
    if (const std::vector<std::string> left_out =
            execution_.executor().tunable_products()->use(table);
        !left_out.empty()) {
      throw Error(left_out.front());
    }
    run(1);
    device::Stream& stream = execution_.stream();
    device::CaptureScope capture(stream);
    run(num_calls_);
    const auto exec = gpu_->device->instantiate(*std::move(capture).finish());
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) {
      times.push_back(seconds_of([&] {
        exec->launch(stream);
        stream.synchronize();
      }));
    }
    return 1e6 * median(times) / static_cast<double>(num_calls_);
  }

 private:
  Tensor make(const Shape& shape) {
    const TensorType type{DType::bf16, shape};
    memory_.push_back(gpu_->device->allocate(type.bytes()));
    const Tensor tensor = Tensor::borrow(type, memory_.back().data(), execution_.executor());
    fill_at_random(execution_.stream(), tensor);
    return tensor;
  }
  void run(int64_t calls) {
    std::array<Tensor, 1> out{out_};
    for (int64_t i = 0; i < calls; ++i) {
      const Tensor& weight = weights_.at(static_cast<size_t>(i) % weights_.size());
      execution_.executor().execute({.code = OpCode::linear, .attributes = {}},
                                    std::array{x_, weight, Tensor(), Tensor()},
                                    out);
    }
  }

  const Gpu* gpu_;
  runner::Execution execution_;
  NamedProduct product_;
  int64_t rows_;
  int64_t num_calls_ = 0;
  std::vector<device::Buffer> memory_;
  Tensor x_;
  std::vector<Tensor> weights_;
  Tensor out_;
};

}  // namespace

void measure_streamed_products(const Gpu& gpu, double seconds, RowLog& log) {
  const Clock::time_point start = Clock::now();
  for (const char* shape : {"0.5b", "1b", "8b"}) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > seconds / 2) return;
    for (const NamedProduct& product : products_of(shape)) {
      for (const int64_t rows : {1, 8}) {
        ProductChain chain(gpu, product, rows);
        const auto streamed = [&](int32_t tile) {
          return chain.time({.kernel = ProductChoice::Kernel::streamed, .tile_columns = tile});
        };
        log.add("streamed_product",
                {{"model", shape},
                 {"product", product.name},
                 {"rows", rows},
                 {"columns", product.columns},
                 {"depth", product.depth},
                 {"own_us", chain.time({.kernel = ProductChoice::Kernel::own})},
                 {"streamed_8_us", streamed(8)},
                 {"streamed_16_us", streamed(16)}});
      }
    }
  }
}

}  // namespace reprise::benchmark
