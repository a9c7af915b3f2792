#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/device/device.h"
#include "reprise/tensor/op.h"

/// A small lesson on CUDA graphs, over the real device, wrapper and capture sizes. A model is a
/// list of operations on one row of numbers. The lesson counts launches, not time.
///
/// Source: the mini_vllm of the course "vLLM Mastery", phase 05 (GraphRunner, PiecewiseGraphRunner,
/// LaunchCounter). Its labs are in labs/. Differs in that a replay here really replays a graph and
/// computes nothing again.
namespace mini_vllm {

/// Computes values = values * scale + offset, as one kernel launch. An op that is not capturable
/// plays the role of attention: it runs eagerly between graphs.
struct Op {
  float scale = 1;
  float offset = 0;
  bool is_capturable = true;
};

using Values = std::vector<float>;

/// A device with one persistent buffer. All ops work in place on this buffer.
class Machine {
 public:
  static constexpr int32_t kMaxValues = 1024;

  Machine();

  /// Launches so far. An eager kernel counts as one, and a graph counts as one, however many
  /// kernels it holds.
  [[nodiscard]] uint64_t launches() const { return stream_->counters().submissions(); }

  void launch(const Op& op, int32_t count);
  void write(std::span<const float> values);
  [[nodiscard]] Values read(int32_t count);

  [[nodiscard]] reprise::device::Device& device() { return *device_; }
  [[nodiscard]] reprise::device::Stream& stream() { return *stream_; }
  /// The first `count` values of the buffer, as a tensor.
  [[nodiscard]] reprise::Tensor values(int32_t count);

 private:
  class NoOps final : public reprise::OpExecutor {
    void execute(const reprise::OpCall&,
                 std::span<const reprise::Tensor>,
                 std::span<reprise::Tensor>) override {}
  };

  std::unique_ptr<reprise::device::Device> device_;
  std::unique_ptr<reprise::device::Stream> stream_;
  reprise::device::Buffer buffer_;
  NoOps no_ops_;
};

/// Runs the ops eagerly: every op is one launch.
Values run_eager(Machine& machine, std::span<const Op> ops, const Values& x);

/// One graph per input shape: the first call of a shape captures, every call replays. The input is
/// copied into the static buffer first, because a graph reads addresses, not arguments.
class GraphRunner {
 public:
  /// `machine` must outlive the runner.
  GraphRunner(Machine& machine, std::vector<Op> ops);

  Values operator()(const Values& x);
  /// Replays a known shape without copying an input first. The result shows what happens when the
  /// copy is forgotten.
  Values replay_what_lies_there(int32_t count);

  [[nodiscard]] size_t num_captured() const { return wrapper_.counters().captures; }

 private:
  Machine* machine_;
  std::vector<Op> ops_;
  reprise::cudagraph::CapturePermission permission_;
  reprise::cudagraph::CudagraphWrapper wrapper_;
};

/// Like GraphRunner, but the capture ends before each op that is not capturable and begins again
/// after it. The result is one graph per run of capturable ops; the other ops are launched between
/// the graphs.
class PiecewiseGraphRunner {
 public:
  PiecewiseGraphRunner(Machine& machine, std::vector<Op> ops);

  Values operator()(const Values& x);

  /// Number of graphs of one shape; 0 before the first call with this shape.
  [[nodiscard]] size_t num_graphs(int32_t count) const;

 private:
  Machine* machine_;
  std::vector<Op> ops_;
  reprise::cudagraph::CapturePermission permission_;
  reprise::cudagraph::CudagraphWrapper wrapper_;
};

/// The longest possible run of ops that are all capturable, or all not capturable.
struct OpRun {
  size_t begin = 0;
  size_t length = 0;
  bool is_capturable = true;

  friend bool operator==(const OpRun&, const OpRun&) = default;
};
[[nodiscard]] std::vector<OpRun> split(std::span<const Op> ops);

/// The sizes vLLM captures up to `max_size`, ascending: 1, 2, 4, then steps of 8 up to 256, then
/// of 16.
[[nodiscard]] std::vector<int32_t> capture_ladder(int32_t max_size);

/// The cost of a model of `num_ops` kernels, in launches. The first call of a shape costs
/// `capture_cost`, which includes the work of that call. Each later call costs one launch.
struct LaunchArithmetic {
  int64_t num_ops = 1;
  int64_t capture_cost = 1;

  [[nodiscard]] int64_t eager(int64_t calls) const { return calls * num_ops; }
  [[nodiscard]] int64_t replayed(int64_t calls) const {
    return calls == 0 ? 0 : capture_cost + (calls - 1);
  }
  /// The smallest number of calls after which graphs have cost less; empty if there is none.
  [[nodiscard]] std::optional<int64_t> break_even_calls() const;
  /// Eager launches divided by launches with graphs. The ratio tends to num_ops.
  [[nodiscard]] double gain(int64_t calls) const {
    return static_cast<double>(eager(calls)) / static_cast<double>(replayed(calls));
  }
};

/// The speed-up by fewer launches if `launch_share` of the time was launching (Amdahl's law).
[[nodiscard]] double speedup(double launch_share, int64_t num_ops);

}  // namespace mini_vllm
