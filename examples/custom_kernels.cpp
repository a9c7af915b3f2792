// Captures and replays your own kernels: dispatcher, wrapper and device without any model code.
//
// The "model" has two kernels over a batch of numbers: y = x * x, then y = y + position. A graph
// reads its input from persistent buffers, which are filled before each step. The arguments of a
// kernel are bound when the graph is captured and never change.
#include <fmt/format.h>

#include <array>
#include <span>
#include <vector>

#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/tensor/op.h"

using namespace reprise;
using cudagraph::CudagraphRuntimeMode;

namespace {

constexpr int32_t kMaxTokens = 64;

struct KernelArguments {
  const float* x;
  float* y;
};

// A kernel is a function over a range of blocks; here one block is one token.
void square(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const KernelArguments*>(args);
  for (uint32_t i = blocks.begin; i < blocks.end; ++i) a.y[i] = a.x[i] * a.x[i];
}
void add_position(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const KernelArguments*>(args);
  for (uint32_t i = blocks.begin; i < blocks.end; ++i) a.y[i] = a.x[i] + static_cast<float>(i);
}
constexpr device::Kernel kSquare{.name = "square", .cpu = square};
constexpr device::Kernel kAddPosition{.name = "add_position", .cpu = add_position};

// A tensor needs an executor that runs ops on it. This example calls no ops, so its executor does
// nothing.
class NoOps final : public OpExecutor {
 public:
  void execute(const OpCall&, std::span<const Tensor>, std::span<Tensor>) override {}
};

class SquareModel {
 public:
  explicit SquareModel(device::Device& device)
      : stream_(device.create_stream()),
        x_(device.allocate(kMaxTokens * sizeof(float))),
        y_(device.allocate(kMaxTokens * sizeof(float))) {}

  // The forward for a padded number of tokens. The same code runs eagerly and is recorded.
  void forward(cudagraph::ForwardContext& context) {
    const auto tokens = static_cast<uint32_t>(context.descriptor.num_tokens);
    launch(*context.stream, kSquare, tokens, {x(), y()}, x());
    launch(*context.stream, kAddPosition, tokens, {y(), y()}, y());
  }

  device::Stream& stream() { return *stream_; }
  float* x() { return static_cast<float*>(x_.data()); }
  float* y() { return static_cast<float*>(y_.data()); }
  std::array<Tensor, 1> inputs() {
    return {Tensor::borrow({DType::f32, {kMaxTokens}}, x_.data(), no_ops_)};
  }

 private:
  // A launch names the memory that it reads and writes. The device derives the barriers between
  // launches from this.
  void launch(device::Stream& stream,
              const device::Kernel& kernel,
              uint32_t num_blocks,
              const KernelArguments& args,
              const float* read) {
    using device::BufferUse;
    const size_t bytes = num_blocks * sizeof(float);
    const std::array uses{BufferUse{read, bytes, BufferUse::Access::read},
                          BufferUse{y(), bytes, BufferUse::Access::write}};
    stream.launch({.kernel = &kernel,
                   .num_blocks = num_blocks,
                   .args = std::as_bytes(std::span(&args, 1)),
                   .uses = uses});
  }

  std::unique_ptr<device::Stream> stream_;
  device::Buffer x_;
  device::Buffer y_;
  NoOps no_ops_;
};

}  // namespace

int main() {
  const std::unique_ptr<device::Device> device = device::create_cpu_device({.num_threads = 2});
  SquareModel model(*device);
  const std::array inputs = model.inputs();
  std::vector<Tensor> outputs;

  cudagraph::CapturePermission permission;
  cudagraph::CudagraphWrapper wrapped(
      [&](cudagraph::ForwardContext& context, std::span<const Tensor>, std::vector<Tensor>& out) {
        model.forward(context);
        out.clear();
      },
      CudagraphRuntimeMode::FULL,
      *device,
      permission);

  cudagraph::CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys({.mode = cudagraph::CudagraphMode::FULL,
                                        .max_num_seqs = kMaxTokens,
                                        .mixed_capture_sizes = {1, 2, 4, 8, 16, 32}});
  const auto run = [&](CudagraphRuntimeMode mode, const cudagraph::BatchDescriptor& descriptor) {
    cudagraph::ForwardContext context{
        .runtime_mode = mode, .descriptor = descriptor, .stream = &model.stream()};
    wrapped(context, inputs, outputs);
    model.stream().synchronize();
  };

  // Start-up: every key of the capture plan is captured once, the largest first. After that,
  // further captures are forbidden (sealed).
  const cudagraph::CaptureReport report = cudagraph::run_capture_session(
      dispatcher,
      permission,
      /*num_warmups=*/0,
      {.dummy_run = [&](const cudagraph::DummyRun& dummy) { run(dummy.mode, dummy.descriptor); },
       .memory_in_use = [&] { return wrapped.graph_bytes(); },
       .now = [] { return 0.0; }});
  fmt::print("captured {} graphs\n", report.num_captured());

  bool all_right = true;
  for (int32_t num_tokens : {1, 3, 8, 20, 40}) {
    for (int32_t i = 0; i < num_tokens; ++i) model.x()[i] = static_cast<float>(num_tokens + i);
    const cudagraph::Decision decision =
        dispatcher.dispatch({.num_tokens = num_tokens, .num_reqs = num_tokens});
    const uint64_t before = model.stream().counters().submissions();
    run(decision.mode, decision.descriptor);
    for (int32_t i = 0; i < num_tokens; ++i) {
      const auto x = static_cast<float>(num_tokens + i);
      all_right = all_right && model.y()[i] == x * x + static_cast<float>(i);
    }
    fmt::print("{:>2} tokens: {:<4} at {:>2} tokens, {} submission(s)\n",
               num_tokens,
               to_string(decision.mode),
               decision.descriptor.num_tokens,
               model.stream().counters().submissions() - before);
  }
  fmt::print("{}\n", all_right ? "all results right" : "WRONG RESULTS");
  return all_right ? 0 : 1;
}
