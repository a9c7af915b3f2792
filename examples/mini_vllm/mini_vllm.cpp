#include "mini_vllm/mini_vllm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/cudagraph/capture/breakable_capture.h"
#include "reprise/cudagraph/capture_sizes.h"
#include "reprise/device/cpu/cpu_device.h"

namespace mini_vllm {
namespace {

using namespace reprise;
using cudagraph::CudagraphRuntimeMode;
using cudagraph::ForwardContext;

struct ScaleAddArguments {
  float* values;
  float scale;
  float offset;
};

void scale_add(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ScaleAddArguments*>(args);
  for (uint32_t i = blocks.begin; i < blocks.end; ++i)
    a.values[i] = a.values[i] * a.scale + a.offset;
}

constexpr device::Kernel kScaleAdd{.name = "scale_add", .cpu = scale_add};

// Calls a wrapper. If the shape is new, the wrapper first captures, which records the ops and does
// not run them. Then it replays.
void capture_then_replay(cudagraph::CudagraphWrapper& wrapper,
                         cudagraph::CapturePermission& permission,
                         Machine& machine,
                         int32_t count) {
  ForwardContext context{.runtime_mode = wrapper.mode(),
                         .descriptor = {.num_tokens = count},
                         .stream = &machine.stream()};
  const std::array inputs{machine.values(count)};
  std::vector<Tensor> outputs;
  if (!wrapper.has(context.descriptor)) {
    // A server would capture every size at start-up, before it accepts requests. Split points run
    // while a capture records, so the buffer gets its content back afterwards.
    const Values input = machine.read(count);
    permission.open();
    wrapper(context, inputs, outputs);
    permission.seal();
    machine.write(input);
  }
  wrapper(context, inputs, outputs);
}

}  // namespace

Machine::Machine()
    : device_(device::create_cpu_device({.num_threads = 1})),
      stream_(device_->create_stream()),
      buffer_(device_->allocate(kMaxValues * sizeof(float))) {}

void Machine::launch(const Op& op, int32_t count) {
  const ScaleAddArguments args{static_cast<float*>(buffer_.data()), op.scale, op.offset};
  const std::array uses{device::BufferUse{buffer_.data(),
                                          static_cast<size_t>(count) * sizeof(float),
                                          device::BufferUse::Access::read_write}};
  stream_->launch({.kernel = &kScaleAdd,
                   .num_blocks = static_cast<uint32_t>(count),
                   .args = std::as_bytes(std::span(&args, 1)),
                   .uses = uses});
}

void Machine::write(std::span<const float> values) {
  stream_->copy_from_host(buffer_.data(), values.data(), values.size_bytes());
}

Values Machine::read(int32_t count) {
  Values values(static_cast<size_t>(count));
  stream_->copy_to_host(values.data(), buffer_.data(), values.size() * sizeof(float));
  return values;
}

Tensor Machine::values(int32_t count) {
  return Tensor::borrow({DType::f32, {count}}, buffer_.data(), no_ops_);
}

Values run_eager(Machine& machine, std::span<const Op> ops, const Values& x) {
  const auto count = static_cast<int32_t>(x.size());
  machine.write(x);
  for (const Op& op : ops) machine.launch(op, count);
  return machine.read(count);
}

GraphRunner::GraphRunner(Machine& machine, std::vector<Op> ops)
    : machine_(&machine),
      ops_(std::move(ops)),
      wrapper_(
          [this](ForwardContext& context, std::span<const Tensor>, std::vector<Tensor>& outputs) {
            for (const Op& op : ops_) machine_->launch(op, context.descriptor.num_tokens);
            outputs.clear();
          },
          CudagraphRuntimeMode::FULL,
          machine.device(),
          permission_) {}

Values GraphRunner::operator()(const Values& x) {
  machine_->write(x);
  return replay_what_lies_there(static_cast<int32_t>(x.size()));
}

Values GraphRunner::replay_what_lies_there(int32_t count) {
  capture_then_replay(wrapper_, permission_, *machine_, count);
  return machine_->read(count);
}

PiecewiseGraphRunner::PiecewiseGraphRunner(Machine& machine, std::vector<Op> ops)
    : machine_(&machine),
      ops_(std::move(ops)),
      wrapper_(
          [this](ForwardContext& context, std::span<const Tensor>, std::vector<Tensor>& outputs) {
            const int32_t count = context.descriptor.num_tokens;
            for (const Op& op : ops_) {
              if (op.is_capturable) {
                machine_->launch(op, count);
              } else {
                cudagraph::split_point(context, {}, [this, op, count](ForwardContext&) {
                  machine_->launch(op, count);
                });
              }
            }
            outputs.clear();
          },
          CudagraphRuntimeMode::PIECEWISE,
          machine.device(),
          permission_,
          {.break_at_split_points = true}) {}

Values PiecewiseGraphRunner::operator()(const Values& x) {
  const auto count = static_cast<int32_t>(x.size());
  machine_->write(x);
  capture_then_replay(wrapper_, permission_, *machine_, count);
  return machine_->read(count);
}

size_t PiecewiseGraphRunner::num_graphs(int32_t count) const {
  return wrapper_.num_graphs({.num_tokens = count});
}

std::vector<OpRun> split(std::span<const Op> ops) {
  std::vector<OpRun> runs;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (runs.empty() || runs.back().is_capturable != ops[i].is_capturable) {
      runs.push_back({.begin = i, .length = 0, .is_capturable = ops[i].is_capturable});
    }
    ++runs.back().length;
  }
  return runs;
}

std::vector<int32_t> capture_ladder(int32_t max_size) {
  return cudagraph::compute_capture_sizes(
             {.capture_size_rule = cudagraph::CaptureSizeRule::vllm},
             {.max_num_seqs = max_size, .max_num_batched_tokens = max_size},
             cudagraph::CudagraphMode::FULL)
      .mixed;
}

std::optional<int64_t> LaunchArithmetic::break_even_calls() const {
  // capture_cost + (k - 1) < k * num_ops
  if (num_ops <= 1) return capture_cost < 1 ? std::optional<int64_t>(1) : std::nullopt;
  return (capture_cost - 1) / (num_ops - 1) + 1;
}

double speedup(double launch_share, int64_t num_ops) {
  return 1 / ((1 - launch_share) + launch_share / static_cast<double>(num_ops));
}

}  // namespace mini_vllm
