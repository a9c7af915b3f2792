#include "reprise/kernels/cuda/product_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/device/error.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/tensor/op_table.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"
#include "tests/support/kernels/packed_weights.h"
#include "tests/support/kernels/reference.h"

// Choices by measurement over a fake GPU whose clock says how long each kernel and each algorithm
// takes. So the fastest choice is known.
namespace reprise::kernels::cuda {
namespace {

using Kernel = ProductChoice::Kernel;

constexpr int64_t kDepth = 64;
constexpr int64_t kColumns = 32;
constexpr int kLayers = 3;
constexpr int64_t kPackedDepth = 256;

/// A process: an engine's executor with weights of some layers. Fakes and GPU are shared.
class Engine {
 public:
  explicit Engine(CudaMachine& machine, BatchInvariance invariance = BatchInvariance::not_required)
      : stream_(machine.device().create_stream()),
        pool_(machine.device().create_pool()),
        executor_(*stream_,
                  *pool_,
                  {.num_multiprocessors = 4,
                   .invariance = invariance,
                   .cublas_lt = &machine.cublas_lt().api()}) {
    for (int i = 0; i < kLayers; ++i) weights_.push_back(random({kColumns, kDepth}));
  }

  Tensor random(Shape shape) {
    const TensorType type{DType::bf16, shape};
    const Tensor tensor =
        Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), executor_);
    std::normal_distribution<double> normal;
    for (const RowIndex& row : all_rows(tensor)) {
      for (int64_t i = 0; i < tensor.size(-1); ++i) {
        set_row_element(tensor, normal(random_), row, i);
      }
    }
    return tensor;
  }
  /// One product of each layer, as in a step. Returns the last one.
  Tensor step(OpCode code, int64_t rows, bool has_norm = false) {
    std::array<Tensor, 1> out;
    for (const Tensor& weight : weights_) {
      std::vector<Tensor> in(definition_of(code).rule.operands.size);
      in[0] = rows_of_x(rows);
      in[1] = weight;
      if (code == OpCode::linear_add) in[3] = residual(rows);
      if (code == OpCode::lm_head) in[2] = one_int(rows);
      if (has_norm) in.back() = norm_;
      out = {};
      executor_.execute({.code = code, .attributes = {.epsilon = 1e-5F}}, in, out);
    }
    if (!stream_->is_capturing()) stream_->synchronize();
    return out[0];
  }
  enum class Rows : uint8_t { in_blocks, elements };
  /// The same with weights of four bits and rows in blocks, or rows that the products quantise.
  Tensor packed_step(OpCode code, int64_t rows, Rows kind = Rows::in_blocks) {
    const std::array parts = {PanelPart{.format = PanelFormat::int4_g128, .columns = kColumns / 2},
                              PanelPart{.format = PanelFormat::int4_g128, .columns = kColumns / 2}};
    const TensorType type = packed_weight_type(parts, kPackedDepth, DType::bf16);
    while (packed_.size() < size_t{kLayers}) {
      packed_.push_back(
          Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), executor_));
      fill_packed_weight(packed_.back(), parts, random_);
    }
    OpAttributes attributes;
    attributes.type.dtype = DType::i8;
    std::array<Tensor, 1> q;
    const Tensor x = wide_.with_layout({rows, kPackedDepth}, {kPackedDepth, 1}, 0);
    executor_.execute(
        {.code = OpCode::quantize_blocks, .attributes = attributes}, std::array{x}, q);
    std::array<Tensor, 1> out;
    for (const Tensor& weight : packed_) {
      std::vector<Tensor> in(definition_of(code).rule.operands.size);
      in[0] = kind == Rows::elements ? x : q[0];
      in[1] = weight;
      if (code == OpCode::linear_add) in[3] = residual(rows);
      if (code == OpCode::lm_head) in[2] = one_int(rows);
      out = {};
      executor_.execute({.code = code, .attributes = attributes}, in, out);
    }
    stream_->synchronize();
    return out[0];
  }
  /// What `reprise tune` does.
  ProductTable tune(const std::function<void()>& run, ProductTable table = {}) {
    tuner().watch();
    run();
    tuner().measure(table);
    return table;
  }
  TunableProducts& tuner() { return *executor_.tunable_products(); }
  device::Stream& stream() { return *stream_; }

 private:
  Tensor rows_of_x(int64_t rows) { return x_.with_layout({rows, kDepth}, {kDepth, 1}, 0); }
  Tensor one_int(int64_t value) {
    const TensorType type{DType::i32, {1}};
    Tensor tensor =
        Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), executor_);
    const auto number = static_cast<int32_t>(value);
    std::memcpy(tensor.data(), &number, sizeof number);
    return tensor;
  }
  Tensor residual(int64_t rows) {
    return residual_.with_layout({rows, kColumns}, {kColumns, 1}, 0);
  }

  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> pool_;
  CudaExecutor executor_;
  std::mt19937 random_{11};
  Tensor x_ = random({130, kDepth});
  Tensor residual_ = random({130, kColumns});
  Tensor norm_ = random({kDepth});
  Tensor wide_ = random({130, kPackedDepth});
  std::vector<Tensor> packed_;
  std::vector<Tensor> weights_;
};

class ProductTunerTest : public testing::Test {
 protected:
  /// Kernels whose names contain `part` take this long; all others 1 us, or what was set before.
  void take(const std::string& part, double microseconds) {
    times_.emplace_back(part, microseconds);
    machine_.driver().set_time_of_kernels([times = times_](const std::string& function, uint32_t) {
      double time = 1;
      for (const auto& [name, of_kernel] : times) {
        if (function.find(name) != std::string::npos) time = of_kernel;
      }
      return time;
    });
  }
  void TearDown() override { EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{}); }
  static const MeasuredRows& only(const ProductTable& table) {
    EXPECT_EQ(table.num_measured(), 1U);
    return table.products().begin()->second.begin()->second;
  }
  static std::vector<std::byte> bits(const Tensor& tensor) {
    const auto* begin = static_cast<const std::byte*>(tensor.data());
    return {begin, begin + tensor.type().bytes()};
  }

  CudaMachine machine_;
  std::vector<std::pair<std::string, double>> times_;
};

// The results of lm_head are float32, which show the order of a sum.
TEST_F(ProductTunerTest, the_fastest_algorithm_is_chosen_and_used_from_then_on) {
  machine_.cublas_lt().set_candidates({9, 5, 3, 7});
  take("lm_head_", 20);
  Engine engine(machine_);
  const std::vector<std::byte> by_rule = bits(engine.step(OpCode::lm_head, 16));
  const ProductTable table = engine.tune([&] { (void)engine.step(OpCode::lm_head, 16); });
  const MeasuredRows& measured = only(table);
  EXPECT_EQ(measured.choice.kernel, Kernel::library);
  EXPECT_DOUBLE_EQ(measured.microseconds, 3);
  EXPECT_DOUBLE_EQ(measured.built_in_microseconds, 9);
  // Measuring alone changes nothing; the choice sums in another order.
  EXPECT_EQ(bits(engine.step(OpCode::lm_head, 16)), by_rule);
  EXPECT_TRUE(engine.tuner().use(table).empty());
  const std::vector<std::byte> chosen = bits(engine.step(OpCode::lm_head, 16));
  EXPECT_NE(chosen, by_rule);
  EXPECT_EQ(bits(engine.step(OpCode::lm_head, 16)), chosen);
  // 9 to 15 rows are rounded up to 16, 17 rows are not.
  EXPECT_EQ(std::memcmp(engine.step(OpCode::lm_head, 12).data(), chosen.data(), 12 * kColumns * 4),
            0);
  EXPECT_NE(std::memcmp(engine.step(OpCode::lm_head, 17).data(), chosen.data(), 16 * kColumns * 4),
            0);
}

TEST_F(ProductTunerTest, a_later_process_has_the_same_choice_and_the_same_bits) {
  machine_.cublas_lt().set_candidates({9, 5, 3});
  Engine first(machine_);
  take("lm_head_", 20);
  const std::string stored = print(first.tune([&] { (void)first.step(OpCode::lm_head, 40); }));
  EXPECT_TRUE(first.tuner().use(parse_product_table(stored, "stored")).empty());
  const std::vector<std::byte> wanted = bits(first.step(OpCode::lm_head, 40));
  // The times of the card may change; the choice does not.
  machine_.cublas_lt().set_candidates({1, 5, 30});
  Engine later(machine_);
  EXPECT_NE(bits(later.step(OpCode::lm_head, 40)), wanted);
  EXPECT_TRUE(later.tuner().use(parse_product_table(stored, "stored")).empty());
  EXPECT_EQ(bits(later.step(OpCode::lm_head, 40)), wanted);
  const uint64_t searches = machine_.cublas_lt().num_searches();
  (void)later.step(OpCode::lm_head, 40);
  EXPECT_EQ(machine_.cublas_lt().num_searches(), searches);
}

TEST_F(ProductTunerTest, own_tiles_are_candidates_and_change_no_bit) {
  machine_.cublas_lt().set_candidates({50});
  take("linear_", 20);
  take("linear_16x32", 4);
  Engine engine(machine_);
  take("linear_8x8", 3);
  ProductTable table = engine.tune([&] { (void)engine.step(OpCode::linear, 24); });
  EXPECT_EQ(only(table).choice, (ProductChoice{.kernel = Kernel::own, .tile_columns = 16}));
  EXPECT_DOUBLE_EQ(only(table).built_in_microseconds, 50);
  take("linear_16x8", 2);
  table = engine.tune([&] { (void)engine.step(OpCode::linear, 4); });
  EXPECT_EQ(only(table).choice, (ProductChoice{.kernel = Kernel::own, .tile_columns = 16}));
  const std::vector<std::byte> by_rule = bits(engine.step(OpCode::linear, 4));
  (void)engine.tuner().use(table);
  EXPECT_EQ(bits(engine.step(OpCode::linear, 4)), by_rule);
}

TEST_F(ProductTunerTest, streamed_kernels_are_candidates_for_few_rows_and_change_no_bit) {
  machine_.cublas_lt().set_candidates({50});
  take("linear_", 20);
  take("linear_8_streamed", 6);
  take("linear_16_streamed", 4);
  for (const BatchInvariance invariance :
       {BatchInvariance::not_required, BatchInvariance::required}) {
    Engine engine(machine_, invariance);
    const std::vector<std::byte> by_rule = bits(engine.step(OpCode::linear, 4));
    const ProductTable table = engine.tune([&] { (void)engine.step(OpCode::linear, 4); });
    EXPECT_EQ(only(table).choice, (ProductChoice{.kernel = Kernel::streamed, .tile_columns = 16}));
    EXPECT_DOUBLE_EQ(only(table).microseconds, 4);
    EXPECT_DOUBLE_EQ(only(table).built_in_microseconds, 20);
    EXPECT_EQ(describe(only(table).choice), "streamed, tiles of 16");
    EXPECT_EQ(parse_product_table(print(table), "stored"), table);
    EXPECT_TRUE(engine.tuner().use(table).empty());
    EXPECT_EQ(bits(engine.step(OpCode::linear, 4)), by_rule);
    for (const int64_t rows : {9, 24}) {
      const ProductTable many = engine.tune([&] { (void)engine.step(OpCode::linear, rows); });
      EXPECT_NE(only(many).choice.kernel, Kernel::streamed) << rows;
    }
  }
}

TEST_F(ProductTunerTest, packed_weights_have_streamed_kernels_as_candidates) {
  machine_.cublas_lt().set_candidates({0.1});
  take("packed_linear_", 20);
  take("packed_streamed_linear", 4);
  for (const BatchInvariance invariance :
       {BatchInvariance::not_required, BatchInvariance::required}) {
    Engine engine(machine_, invariance);
    for (const OpCode code :
         {OpCode::linear, OpCode::linear_add, OpCode::linear_silu_and_mul, OpCode::lm_head}) {
      SCOPED_TRACE(op_name(code));
      for (const int64_t rows : {1, 8}) {
        const std::vector<std::byte> by_rule = bits(engine.packed_step(code, rows));
        const ProductTable table = engine.tune([&] { (void)engine.packed_step(code, rows); });
        EXPECT_EQ(only(table).choice, (ProductChoice{.kernel = Kernel::streamed}));
        EXPECT_DOUBLE_EQ(only(table).microseconds, 4);
        EXPECT_DOUBLE_EQ(only(table).built_in_microseconds, 20);
        const ProductShape& shape = table.products().begin()->first;
        EXPECT_EQ(shape.weight.family, WeightFamily::block_panels);
        EXPECT_EQ(shape.depth, kPackedDepth);
        EXPECT_EQ(parse_product_table(print(table), "stored"), table);
        EXPECT_TRUE(engine.tuner().use(table).empty());
        EXPECT_EQ(bits(engine.packed_step(code, rows)), by_rule);
        EXPECT_THAT(describe(shape), testing::HasSubstr("blocks"));
      }
      (void)engine.tuner().use({});
      const ProductTable many = engine.tune([&] { (void)engine.packed_step(code, 9); });
      EXPECT_EQ(only(many).choice.kernel, Kernel::built_in);
    }
  }
}

// A kernel quantises up to four rows itself. Otherwise the time has the launch that does it before.
TEST_F(ProductTunerTest, products_that_quantise_their_rows_are_timed_with_the_quantisation) {
  take("packed_linear_", 20);
  take("packed_streamed_linear", 4);
  take("packed_own_rows_streamed_linear", 3);
  take("quantize_blocks", 2);
  Engine engine(machine_);
  for (const auto& [rows, streamed_us, streamed_rows] :
       {std::tuple{1, 3.0, "by the product"}, std::tuple{8, 6.0, "before"}}) {
    SCOPED_TRACE(streamed_rows);
    const auto step = [&] {
      return engine.packed_step(OpCode::linear, rows, Engine::Rows::elements);
    };
    const std::vector<std::byte> by_rule = bits(step());
    EXPECT_EQ(by_rule, bits(engine.packed_step(OpCode::linear, rows)));
    const ProductTable table = engine.tune([&] { (void)step(); });
    EXPECT_EQ(only(table).choice, (ProductChoice{.kernel = Kernel::streamed}));
    EXPECT_DOUBLE_EQ(only(table).microseconds, streamed_us);
    EXPECT_DOUBLE_EQ(only(table).built_in_microseconds, 22);
    EXPECT_TRUE(engine.tuner().use(table).empty());
    EXPECT_EQ(bits(step()), by_rule);
    (void)engine.tuner().use({});
  }
}

TEST_F(ProductTunerTest, no_table_gives_a_packed_weight_to_the_library) {
  machine_.cublas_lt().set_candidates({9, 3});
  take("packed_linear_", 20);
  Engine engine(machine_);
  const ProductTable table = engine.tune([&] { (void)engine.packed_step(OpCode::linear, 4); });
  take("linear_", 20);
  const ProductTable plain = engine.tune([&] { (void)engine.step(OpCode::linear, 4); });
  ASSERT_EQ(only(plain).choice.kernel, Kernel::library);
  ProductTable forged;
  forged.set(table.products().begin()->first, 4, only(plain));
  const std::vector<std::string> left_out = engine.tuner().use(forged);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_THAT(left_out[0], testing::HasSubstr("cuBLASLt reads no experts and no packed weights"));
}

TEST_F(ProductTunerTest, code_for_an_older_gpu_has_no_streamed_kernels) {
  machine_.cublas_lt().set_candidates({50});
  take("linear_", 20);
  take("linear_16_streamed", 4);
  Engine engine(machine_);
  const ProductTable table = engine.tune([&] { (void)engine.step(OpCode::linear, 4); });
  ASSERT_EQ(only(table).choice.kernel, Kernel::streamed);
  // The driver compiles PTX for compute capability 8 if the image has nothing better.
  machine_.driver().set_architecture_of_code(80);
  Engine older(machine_);
  const ProductTable own = older.tune([&] { (void)older.step(OpCode::linear, 4); });
  EXPECT_NE(only(own).choice.kernel, Kernel::streamed);
  const std::vector<std::string> left_out = older.tuner().use(table);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_THAT(left_out[0], testing::HasSubstr("has no bulk copies"));
  EXPECT_EQ(bits(older.step(OpCode::linear, 4)), bits(engine.step(OpCode::linear, 4)));
}

// So a streamed kernel is measured as it runs: its copies begin while the kernel before it ends.
TEST_F(ProductTunerTest, streamed_kernels_begin_early_whether_or_not_all_kernels_do) {
  const std::string function = "reprise_linear_16_streamed_bf16";
  std::vector<bool> programmatic;
  const HostKernel& kernel = host_kernels().at(function);
  machine_.driver().add_kernel(function,
                               {.parameter_bytes = kernel.argument_bytes,
                                .run = [&](const device::cuda::FakeLaunch& launch) {
                                  programmatic.push_back(launch.is_programmatic);
                                  kernel.run(
                                      launch.parameter, launch.num_blocks, 0, launch.num_blocks);
                                }});
  machine_.cublas_lt().set_candidates({50});
  take("linear_", 20);
  take("linear_16_streamed", 4);
  Engine engine(machine_);
  (void)engine.tuner().use(engine.tune([&] { (void)engine.step(OpCode::linear, 4); }));
  EXPECT_GT(std::ranges::count(programmatic, true), kLayers) << "in the graphs that are timed";
  const std::vector<bool> of_layers = {false, true, true};
  programmatic.clear();
  const std::vector<std::byte> eager = bits(engine.step(OpCode::linear, 4));
  EXPECT_EQ(programmatic, of_layers);
  engine.stream().begin_capture();
  const Tensor out = engine.step(OpCode::linear, 4);
  const auto graph = engine.stream().end_capture();
  programmatic.clear();
  machine_.device().instantiate(*graph)->launch(engine.stream());
  engine.stream().synchronize();
  EXPECT_EQ(programmatic, of_layers);
  EXPECT_EQ(bits(out), eager);
  for (const device::Kernel* one : streamed_kernels()) {
    EXPECT_EQ(one->cuda.start, device::CudaKernelCode::Start::early) << one->name;
  }
}

TEST_F(ProductTunerTest, what_saves_less_than_the_noise_is_not_chosen) {
  take("linear_", 1000);
  Engine engine(machine_);
  machine_.cublas_lt().set_candidates({100, 98});
  ProductTable table = engine.tune([&] { (void)engine.step(OpCode::linear, 16); });
  EXPECT_EQ(only(table).choice.kernel, Kernel::built_in);
  EXPECT_DOUBLE_EQ(only(table).microseconds, 100);
  machine_.cublas_lt().set_candidates({100, 96});
  table = engine.tune([&] { (void)engine.step(OpCode::linear, 16); });
  EXPECT_EQ(only(table).choice.kernel, Kernel::library);
}

TEST_F(ProductTunerTest, an_op_is_timed_with_the_launches_around_its_product) {
  machine_.cublas_lt().set_candidates({3});
  take("add", 4);
  take("linear_add", 6);  // no kernel has this name: the own product includes the sum
  take("linear_8", 6);
  take("linear_16", 6);
  take("linear_32", 6);
  take("rms_norm", 5);
  take("linear_silu", 7);
  Engine engine(machine_);
  // 3 + 4 us by the library, 6 us by one launch of the project's kernel.
  ProductTable table = engine.tune([&] { (void)engine.step(OpCode::linear_add, 64); });
  EXPECT_EQ(only(table).choice.kernel, Kernel::own);
  EXPECT_DOUBLE_EQ(only(table).built_in_microseconds, 7);
  EXPECT_DOUBLE_EQ(only(table).microseconds, 6);
  // One launch with the norm and silu_and_mul takes 7 us, and 5 + 3 + 1 us three launches.
  table = engine.tune([&] { (void)engine.step(OpCode::linear_silu_and_mul, 8, true); });
  EXPECT_EQ(only(table).choice.kernel, Kernel::built_in);
  EXPECT_TRUE(table.products().begin()->first.has_norm);
  take("rms_norm", 2);
  table = engine.tune([&] { (void)engine.step(OpCode::linear_silu_and_mul, 8, true); });
  EXPECT_EQ(only(table).choice.kernel, Kernel::library);
  EXPECT_DOUBLE_EQ(only(table).microseconds, 6);
  const Tensor fused = engine.step(OpCode::linear_silu_and_mul, 8, true);
  const uint64_t before = machine_.cublas_lt().num_products();
  (void)engine.tuner().use(table);
  const Tensor apart = engine.step(OpCode::linear_silu_and_mul, 8, true);
  EXPECT_EQ(machine_.cublas_lt().num_products() - before, uint64_t{kLayers});
  for (const RowIndex& row : all_rows(apart)) {
    for (int64_t i = 0; i < apart.size(-1); ++i) {
      const double wanted = row_element(fused, row, i);
      EXPECT_NEAR(row_element(apart, row, i), wanted, 0.02 * (1 + std::abs(wanted)));
    }
  }
}

TEST_F(ProductTunerTest,
       each_layers_weight_is_read_once_and_known_products_are_not_measured_again) {
  Engine engine(machine_);
  const ProductTable table = engine.tune([&] { (void)engine.step(OpCode::linear, 16); });
  const uint64_t products = machine_.cublas_lt().num_products();
  const ProductTable again = engine.tune([&] { (void)engine.step(OpCode::linear, 16); }, table);
  EXPECT_EQ(again, table);
  EXPECT_EQ(machine_.cublas_lt().num_products() - products, uint64_t{kLayers}) << "only the step";
  const ProductTable more = engine.tune([&] { (void)engine.step(OpCode::linear, 17); }, table);
  EXPECT_EQ(more.num_measured(), 2U);
}

TEST_F(ProductTunerTest, batch_invariance_admits_no_algorithm_of_the_library) {
  machine_.cublas_lt().set_candidates({0.1});
  take("linear_", 20);
  Engine any(machine_);
  const ProductTable table = any.tune([&] { (void)any.step(OpCode::linear, 4); });
  ASSERT_EQ(only(table).choice.kernel, Kernel::library);
  Engine invariant(machine_, BatchInvariance::required);
  EXPECT_NE(any.tuner().identity(), invariant.tuner().identity());
  const std::vector<std::byte> wanted = bits(invariant.step(OpCode::linear, 4));
  const std::vector<std::string> left_out = invariant.tuner().use(table);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_THAT(left_out[0], testing::HasSubstr("--batch-invariant"));
  EXPECT_EQ(bits(invariant.step(OpCode::linear, 4)), wanted);
  take("linear_8x8", 2);
  take("linear_16x8", 1);
  for (const int64_t rows : {4, 24, 130}) {
    const ProductTable own = invariant.tune([&] { (void)invariant.step(OpCode::linear, rows); });
    EXPECT_NE(only(own).choice.kernel, Kernel::library) << rows;
    EXPECT_TRUE(invariant.tuner().use(own).empty());
    EXPECT_EQ(
        std::memcmp(invariant.step(OpCode::linear, rows).data(), wanted.data(), wanted.size()), 0)
        << rows;
  }
}

TEST_F(ProductTunerTest, an_algorithm_that_the_library_refuses_is_left_out) {
  machine_.cublas_lt().set_candidates({9, 3});
  take("linear_", 20);
  Engine engine(machine_);
  const ProductTable table = engine.tune([&] { (void)engine.step(OpCode::linear, 16); });
  MeasuredRows forged = only(table);
  forged.choice.algorithm[0] ^= 7;
  ProductTable wrong;
  wrong.set(table.products().begin()->first, 16, forged);
  const std::vector<std::byte> by_rule = bits(engine.step(OpCode::linear, 16));
  const std::vector<std::string> left_out = engine.tuner().use(wrong);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_THAT(left_out[0], testing::HasSubstr("refuses"));
  EXPECT_EQ(bits(engine.step(OpCode::linear, 16)), by_rule);
  // An algorithm for 16 rows does not serve more.
  wrong = {};
  wrong.set(table.products().begin()->first, 64, only(table));
  EXPECT_EQ(engine.tuner().use(wrong).size(), 1U);
}

TEST_F(ProductTunerTest, choices_are_replayed_as_they_ran_and_made_in_no_capture) {
  machine_.cublas_lt().set_candidates({9, 3});
  take("linear_", 20);
  Engine engine(machine_);
  (void)engine.tuner().use(engine.tune([&] { (void)engine.step(OpCode::linear, 4); }));
  const std::vector<std::byte> eager = bits(engine.step(OpCode::linear, 4));
  engine.stream().begin_capture();
  const Tensor out = engine.step(OpCode::linear, 4);
  const auto graph = engine.stream().end_capture();
  const auto exec = machine_.device().instantiate(*graph);
  std::memset(out.data(), 0xFF, out.type().bytes());
  exec->launch(engine.stream());
  engine.stream().synchronize();
  EXPECT_EQ(bits(out), eager);
}

TEST_F(ProductTunerTest, a_failing_call_loses_the_measurement_and_nothing_else) {
  machine_.cublas_lt().set_candidates({9, 3});
  take("linear_", 20);
  Engine engine(machine_);
  const std::vector<std::byte> wanted = bits(engine.step(OpCode::linear, 16));
  const ProductTable table = engine.tune([&] { (void)engine.step(OpCode::linear, 16); });
  const device::cuda::FakeResources resources = machine_.driver().resources();
  machine_.driver().fail_call(0);
  (void)engine.tune([&] { (void)engine.step(OpCode::linear, 16); });
  const uint64_t num_calls = machine_.driver().num_calls();
  ASSERT_GT(num_calls, 100U);
  for (uint64_t k = 1; k <= num_calls; k += 3) {
    machine_.driver().fail_call(k);
    try {
      const ProductTable some = engine.tune([&] { (void)engine.step(OpCode::linear, 16); });
      // A candidate that cannot be timed is left out; the others are compared.
      EXPECT_TRUE(some == table || only(some).choice.kernel == Kernel::built_in ||
                  only(some).choice == only(table).choice)
          << k;
    } catch (const Error&) {
      EXPECT_FALSE(machine_.driver().failed_call().empty()) << k;
    }
    machine_.driver().fail_call(0);
    EXPECT_EQ(bits(engine.step(OpCode::linear, 16)), wanted)
        << k << ": " << machine_.driver().failed_call();
  }
  EXPECT_EQ(machine_.driver().resources(), resources);
}

TEST_F(ProductTunerTest, the_identity_names_card_driver_library_and_kernels) {
  Engine engine(machine_);
  const std::string identity = engine.tuner().identity();
  for (const char* part : {"Fake GPU", "compute capability 9.0", "cuBLASLt 130100", "kernels "}) {
    EXPECT_THAT(identity, testing::HasSubstr(part));
  }
  EXPECT_EQ(identity.find('\n'), std::string::npos);
  machine_.cublas_lt().set_version(130200);
  EXPECT_NE(engine.tuner().identity(), identity);
}

}  // namespace
}  // namespace reprise::kernels::cuda
