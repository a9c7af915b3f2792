// Runs the generated CUDA source on the CPU: the host's compiler compiles it, and each thread runs
// as a fiber. The bits must equal those of the single ops, computed by the source of the
// precompiled CUDA kernels in the same way.
#include "reprise/compile/codegen/nvrtc/cuda_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reprise/compile/codegen/nvrtc/nvrtc_compiler.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/program/interpreter.h"
#include "reprise/program/text.h"
#include "tests/support/compile/codegen_fixture.h"
#include "tests/support/compile/random_body_fixture.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"
#include "tests/support/fake_cuda/host_image_fixture.h"
#include "tests/support/fake_cuda/nvrtc_api_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

/// Compiles source and loads it into this process.
device::cuda::FakeImage compile_image(const std::string& source) {
  const std::string image = compile_on_host(source);
  return kernels::cuda::load_host_image(std::as_bytes(std::span(image)));
}

void launch(const device::cuda::FakeKernel& kernel,
            const kernels::RowGroupArguments& arguments,
            uint32_t num_blocks) {
  kernel.run({.parameter = &arguments,
              .num_blocks = num_blocks,
              .threads_per_block = kernels::kRowGroupThreads});
}

/// Runs single ops with the CUDA kernels on the host. The fake driver's device memory is host
/// memory.
class OpByOp {
 public:
  std::vector<Tensor> run(const Program& body, std::span<const Tensor> inputs) {
    program::Interpreter interpreter(body);
    std::vector<Tensor> borrowed;
    for (const Tensor& input : inputs) borrowed.push_back(input);
    std::vector<Tensor> outputs = interpreter.run(borrowed, {}, executor_);
    stream_->synchronize();
    return outputs;
  }

 private:
  kernels::cuda::CudaMachine machine_;
  std::unique_ptr<device::Stream> stream_ = machine_.device().create_stream();
  std::unique_ptr<device::MemoryPool> pool_ = machine_.device().create_pool();
  kernels::cuda::CudaExecutor executor_{*stream_, *pool_, {.num_multiprocessors = 4}};
};

class CudaSource : public ::testing::Test {
 protected:
  void expect_same_bits(std::span<const Program> bodies,
                        std::span<const int64_t> row_counts,
                        Rows rows) {
    std::vector<RowGroupSource> sources;
    for (size_t i = 0; i < bodies.size(); ++i) {
      ASSERT_EQ(why_no_cuda_source(bodies[i]), std::nullopt) << program::print(bodies[i]);
      sources.push_back({fmt::format("f{}", i), &bodies[i]});
    }
    const device::cuda::FakeImage compiled = compile_image(cuda_source(sources));
    ASSERT_TRUE(compiled);
    for (size_t i = 0; i < bodies.size(); ++i) {
      const auto kernel = compiled(sources[i].symbol);
      ASSERT_TRUE(kernel);
      for (const int64_t num_rows : row_counts) {
        // A fiber per thread is slow, so each case uses only one kind of numbers.
        const Numbers numbers = i % 2 == 0 ? Numbers::any_bits : Numbers::ordinary;
        {
          SCOPED_TRACE(testing::Message() << num_rows << " rows\n" << program::print(bodies[i]));
          const std::vector<Tensor> inputs = bench_.make_inputs(
              bodies[i], {.num_rows = num_rows, .numbers = numbers, .rows = rows});
          const std::vector<Tensor> got = bench_.make_outputs(bodies[i], num_rows);
          const auto arguments = arguments_of(inputs, got, num_rows, 3);
          launch(*kernel, arguments, static_cast<uint32_t>((num_rows + 2) / 3));
          const std::vector<Tensor> want = op_by_op_.run(bodies[i], inputs);
          for (size_t output = 0; output < got.size(); ++output) {
            ASSERT_EQ(difference(got[output], want[output]), "") << "output " << output;
          }
        }
      }
    }
  }

  GroupBench bench_{kernels::Isa::scalar};
  OpByOp op_by_op_;
};

TEST_F(CudaSource, has_the_bits_of_the_cuda_kernels_op_by_op_at_edges_of_width_and_rows) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    std::vector<Program> bodies;
    for (const std::string_view name : body_names()) {
      for (const int64_t width : {1, 33, 64, 1100}) {
        const bool has_heads = name.find("rope") != std::string_view::npos;
        if (has_heads && width > 64) continue;
        Program body = make_body(name, {.dtype = dtype, .width = width});
        if (!why_no_cuda_source(body)) bodies.push_back(std::move(body));
      }
    }
    ASSERT_GT(bodies.size(), 40U);
    expect_same_bits(bodies, std::array<int64_t, 1>{4}, Rows::strided);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaSource, of_random_bodies_has_the_bits_of_the_cuda_kernels_op_by_op) {
  std::vector<Program> bodies;
  for (uint32_t seed = 0; bodies.size() < 24; ++seed) {
    Program body =
        RandomBody(seed, std::array{DType::f32, DType::bf16, DType::f16}[seed % 3]).make();
    if (!why_no_cuda_source(body)) bodies.push_back(std::move(body));
    ASSERT_LT(seed, 400U) << "almost nothing has source";
  }
  expect_same_bits(bodies, std::array<int64_t, 1>{4}, Rows::dense);
}

TEST_F(CudaSource, lets_results_lie_on_inputs) {
  const Program body = make_body("add_rms_norm", {.dtype = DType::bf16, .width = 1100});
  const std::vector<RowGroupSource> sources = {{"f0", &body}};
  const device::cuda::FakeImage compiled = compile_image(cuda_source(sources));
  ASSERT_TRUE(compiled);
  const std::vector<Tensor> inputs = bench_.make_inputs(body, {.num_rows = 5});
  const std::vector<Tensor> want = op_by_op_.run(body, inputs);
  const auto kernel = compiled("f0");
  ASSERT_TRUE(kernel);
  // The norm is stored over x, and the sum over the residual.
  const std::vector<Tensor> results = {inputs[0], inputs[1]};
  const auto arguments = arguments_of(inputs, results, 5, 2);
  launch(*kernel, arguments, 3);
  EXPECT_EQ(difference(results[0], want[0]), "");
  EXPECT_EQ(difference(results[1], want[1]), "");
}

TEST_F(CudaSource, is_refused_for_rows_that_no_block_has_room_for) {
  const Program body = make_body("add_rms_norm", {.dtype = DType::f32, .width = 20000});
  const std::optional<std::string> reason = why_no_cuda_source(body);
  ASSERT_TRUE(reason);
  EXPECT_NE(reason->find("shared memory"), std::string::npos) << *reason;
}

class Nvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc_.reason.empty()) GTEST_SKIP() << nvrtc_.reason;
  }
  static bool contains(std::span<const std::byte> bytes, std::string_view text) {
    const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return all.find(text) != std::string_view::npos;
  }
  LoadedNvrtc nvrtc_ = load_nvrtc();
};

TEST_F(Nvrtc, compiles_every_body_for_the_architectures_that_are_built_for) {
  for (const char* architecture : {"sm_80", "sm_90"}) {
    const auto compiler = create_nvrtc_compiler(nvrtc_.api, architecture);
    std::vector<Program> bodies;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const std::string_view name : body_names())
        bodies.push_back(make_body(name, {.dtype = dtype}));
    }
    for (uint32_t seed = 0; seed < 20; ++seed)
      bodies.push_back(RandomBody(seed, DType::bf16).make());
    std::vector<RowGroupSource> sources;
    for (size_t i = 0; i < bodies.size(); ++i) {
      if (!compiler->why_not(bodies[i])) sources.push_back({fmt::format("g{}_", i), &bodies[i]});
    }
    const std::vector<std::byte> cubin = compiler->compile(sources);
    for (const RowGroupSource& source : sources)
      EXPECT_TRUE(contains(cubin, source.symbol)) << source.symbol;
    EXPECT_EQ(cubin, compiler->compile(sources)) << "the same sources must give the same bytes";
  }
}

TEST_F(Nvrtc, names_all_that_decides_the_code) {
  const std::string hash = create_nvrtc_compiler(nvrtc_.api, "sm_80")->compute_hash();
  EXPECT_NE(hash, create_nvrtc_compiler(nvrtc_.api, "sm_90")->compute_hash());
  EXPECT_NE(hash.find("--fmad=false"), std::string::npos);
  EXPECT_NE(hash.find("sm_80"), std::string::npos);
}

TEST_F(Nvrtc, says_what_was_wrong) {
  const Program body = make_body("rms_norm", {});
  const std::vector<RowGroupSource> sources = {{"no identifier", &body}};
  try {
    (void)create_nvrtc_compiler(nvrtc_.api, "sm_80")->compile(sources);
    FAIL();
  } catch (const CodegenError& error) {
    EXPECT_NE(std::string(error.what()).find("row_groups.cu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace reprise::compile
