#include "benchmarks/cuda_streamed.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/cuda_gemm.h"
#include "reprise/kernels/tunable_products.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::benchmark {
namespace {

using kernels::ProductChoice;

struct NamedProduct {
  const char* name;
  int64_t columns;
  int64_t depth;
};

std::vector<NamedProduct> products_of(const char* shape) {
  const char* text = std::string_view(shape) == "7b" ? kSevenBillion : config_of(shape);
  const weights::ModelConfig config = weights::parse_model_config(text, "config").config;
  const int64_t hidden = config.hidden_size;
  const int64_t q = config.num_attention_heads * config.head_dim;
  const int64_t kv = config.num_key_value_heads * config.head_dim;
  return {{"qkv", q + 2 * kv, hidden},
          {"o", hidden, q},
          {"gate_up", 2 * config.intermediate_size, hidden},
          {"down", hidden, config.intermediate_size},
          {"head", config.vocab_size, hidden}};
}

/// How the weights of a product are stored: as a codec of blocks or of panels; nothing: in rows.
using Codec = std::optional<PanelFormat>;

/// What a weight in blocks is multiplied with.
enum class RowsOfBlocks : uint8_t {
  quantised,          // before the chain
  quantised_by_op,    // by an op before each product
  quantised_by_each,  // by each product, where a streamed kernel does that
};

/// One product with several weights, which take turns, so that each comes from memory.
class ProductChain {
 public:
  /// `num_experts`: 0 for a plain product. Each token chooses eight experts at random.
  ProductChain(const Gpu& gpu,
               const NamedProduct& product,
               int64_t rows,
               Codec codec,
               int64_t num_experts,
               RowsOfBlocks rows_of_blocks = RowsOfBlocks::quantised)
      : gpu_(&gpu),
        execution_(*gpu.device, executor_of(gpu)),
        rows_(rows),
        depth_(product.depth),
        rows_of_blocks_(rows_of_blocks) {
    TensorType type = type_of(product, codec, std::max<int64_t>(num_experts, 1));
    if (num_experts > 0) type.shape = {num_experts, product.columns, product.depth};
    // More than twice the second-level cache of an H200 (50 MiB), and at most 16 weights.
    constexpr int64_t kColdBytes = 150'000'000;
    const auto bytes = static_cast<int64_t>(type.bytes());
    const int64_t count = std::clamp<int64_t>(kColdBytes / bytes + 1, 1, 16);
    for (int64_t i = 0; i < count; ++i) {
      weights_.push_back(make(type));
      if (type.layout.family == WeightFamily::block_panels) write_header(product, *codec);
    }
    x_ = make(rows_of(type));
    elements_ = make({DType::bf16, {rows_, depth_}});
    if (rows_of_blocks == RowsOfBlocks::quantised_by_each) x_ = elements_;
    if (num_experts > 0) experts_ = choose(num_experts);
    const int64_t out_rows = num_experts > 0 ? rows * kExpertsOfToken : rows;
    out_ = make({DType::bf16, {out_rows, product.columns}});
    // A graph takes 7 us more than its nodes; half a millisecond of products makes this 1.4 %.
    constexpr int64_t kChainBytes = 2'000'000'000;
    num_calls_ = std::clamp<int64_t>(kChainBytes / bytes, 4, 400);
    shape_ = {.op = num_experts > 0 ? OpCode::expert_linear : OpCode::linear,
              .columns = type.shape.num_elements() / product.depth,
              .depth = product.depth,
              .x_stride = x_.stride(0),
              .weight = kernels::PackedForm(type.layout)};
  }

  /// Microseconds of one product.
  [[nodiscard]] double time(const ProductChoice& choice) {
    kernels::ProductTable table;
    table.set(shape_, rows_, {.choice = choice, .microseconds = 1, .built_in_microseconds = 1});
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
  static constexpr int64_t kExpertsOfToken = 8;

  static TensorType type_of(const NamedProduct& product, Codec codec, int64_t num_experts) {
    const int64_t columns = product.columns * num_experts;
    if (!codec) return {DType::bf16, {columns, product.depth}};
    if (family_of(*codec) == WeightFamily::block_panels) {
      const PanelPart part{.format = *codec, .columns = columns};
      return packed_weight_type(std::array{part}, product.depth, DType::bf16);
    }
    return {DType::bf16, {columns, product.depth}, layout_of(*codec, product.depth)};
  }
  /// The rows that a weight asks for.
  [[nodiscard]] TensorType rows_of(const TensorType& weight) const {
    if (weight.layout.family != WeightFamily::block_panels) return {DType::bf16, {rows_, depth_}};
    const auto block = static_cast<int64_t>(sizeof(ActivationBlock));
    return {DType::i8, {rows_, depth_ / kPanelBlock * block}};
  }
  Tensor make(const TensorType& type) {
    memory_.push_back(gpu_->device->allocate(type.bytes()));
    const Tensor tensor = Tensor::borrow(type, memory_.back().data(), execution_.executor());
    fill_at_random(execution_.stream(), tensor);
    return tensor;
  }
  /// Of the last weight.
  void write_header(const NamedProduct& product, PanelFormat codec) {
    const Tensor& weight = weights_.back();
    const PanelPart part{.format = codec, .columns = weight.num_elements() / product.depth};
    const PanelHeader header = make_panel_header(std::array{part}, product.depth);
    execution_.stream().copy_from_host(weight.data(), &header, sizeof header);
  }
  Tensor choose(int64_t num_experts) {
    std::mt19937 random(3);
    std::vector<int32_t> chosen;
    std::vector<int32_t> all(static_cast<size_t>(num_experts));
    std::iota(all.begin(), all.end(), 0);
    for (int64_t token = 0; token < rows_; ++token) {
      std::ranges::shuffle(all, random);
      chosen.insert(chosen.end(), all.begin(), all.begin() + kExpertsOfToken);
    }
    const Tensor experts = make({DType::i32, {rows_, kExpertsOfToken}});
    execution_.stream().copy_from_host(experts.data(), chosen.data(), 4 * chosen.size());
    return experts;
  }
  void run(int64_t calls) {
    std::array<Tensor, 1> out{out_};
    OpCall quantise{OpCode::quantize_blocks, {}};
    quantise.attributes.type.dtype = DType::i8;
    for (int64_t i = 0; i < calls; ++i) {
      if (rows_of_blocks_ == RowsOfBlocks::quantised_by_op) {
        execution_.executor().execute(quantise, {&elements_, 1}, {&x_, 1});
      }
      const Tensor& weight = weights_.at(static_cast<size_t>(i) % weights_.size());
      execution_.executor().execute(
          {.code = shape_.op, .attributes = {}}, std::array{x_, weight, Tensor(), experts_}, out);
    }
  }

  const Gpu* gpu_;
  runner::Execution execution_;
  int64_t rows_;
  int64_t depth_;
  RowsOfBlocks rows_of_blocks_;
  kernels::ProductShape shape_;
  int64_t num_calls_ = 0;
  std::vector<device::Buffer> memory_;
  Tensor x_;
  Tensor elements_;  // that are quantised
  std::vector<Tensor> weights_;
  Tensor experts_;  // undefined: a plain product
  Tensor out_;
};

constexpr ProductChoice kOwn{.kernel = ProductChoice::Kernel::own};
constexpr ProductChoice kStreamed{.kernel = ProductChoice::Kernel::streamed};

void measure_packed(const Gpu& gpu, const char* shape, PanelFormat codec, RowLog& log) {
  for (const NamedProduct& product : products_of(shape)) {
    if (std::string_view(product.name) == "head") continue;  // in bfloat16
    for (const int64_t rows : {1, 8}) {
      ProductChain chain(gpu, product, rows, codec, 0);
      log.add("streamed_packed",
              {{"model", shape},
               {"weights", codec_name(codec)},
               {"product", product.name},
               {"rows", rows},
               {"columns", product.columns},
               {"depth", product.depth},
               {"own_us", chain.time(kOwn)},
               {"streamed_us", chain.time(kStreamed)}});
    }
  }
}

/// Products that quantise their rows, beside the same with an op that does it before.
void measure_own_rows(const Gpu& gpu, const char* shape, PanelFormat codec, RowLog& log) {
  for (const NamedProduct& product : products_of(shape)) {
    if (std::string_view(product.name) == "head") continue;  // in bfloat16
    ProductChain apart(gpu, product, 1, codec, 0, RowsOfBlocks::quantised_by_op);
    ProductChain inside(gpu, product, 1, codec, 0, RowsOfBlocks::quantised_by_each);
    log.add("streamed_own_rows",
            {{"model", shape},
             {"weights", codec_name(codec)},
             {"product", product.name},
             {"rows", 1},
             {"columns", product.columns},
             {"depth", product.depth},
             {"apart_us", apart.time(kStreamed)},
             {"inside_us", inside.time(kStreamed)}});
  }
}

/// Of Qwen3-30B-A3B.
void measure_experts(const Gpu& gpu, Codec codec, RowLog& log) {
  constexpr int64_t kExperts = 128;
  const std::array products = {NamedProduct{"gate_up", 1536, 2048},
                               NamedProduct{"down", 2048, 768}};
  for (const NamedProduct& product : products) {
    for (const int64_t requests : {1, 64}) {
      ProductChain chain(gpu, product, requests, codec, kExperts);
      log.add("streamed_experts",
              {{"weights", codec ? std::string(codec_name(*codec)) : "bfloat16"},
               {"product", product.name},
               {"requests", requests},
               {"columns", product.columns},
               {"depth", product.depth},
               {"own_us", chain.time(kOwn)},
               {"streamed_us", chain.time(kStreamed)}});
    }
  }
}

}  // namespace

void measure_streamed_products(const Gpu& gpu, double seconds, RowLog& log) {
  const Clock::time_point start = Clock::now();
  for (const char* shape : {"0.5b", "1b", "8b"}) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > seconds / 2) return;
    for (const NamedProduct& product : products_of(shape)) {
      for (const int64_t rows : {1, 8}) {
        ProductChain chain(gpu, product, rows, std::nullopt, 0);
        const auto streamed = [&](int32_t tile) {
          return chain.time({.kernel = ProductChoice::Kernel::streamed, .tile_columns = tile});
        };
        log.add("streamed_product",
                {{"model", shape},
                 {"product", product.name},
                 {"rows", rows},
                 {"columns", product.columns},
                 {"depth", product.depth},
                 {"own_us", chain.time(kOwn)},
                 {"streamed_8_us", streamed(8)},
                 {"streamed_16_us", streamed(16)}});
      }
    }
  }
  measure_packed(gpu, "7b", PanelFormat::int4_g128, log);
  measure_own_rows(gpu, "7b", PanelFormat::int4_g128, log);
  measure_packed(gpu, "8b", PanelFormat::f8e4m3_rows, log);
  for (const Codec codec : {Codec(), Codec(PanelFormat::int4_g128)})
    measure_experts(gpu, codec, log);
}

}  // namespace reprise::benchmark
