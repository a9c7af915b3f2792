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

/// The ideas of CUDA graphs at the size of a lesson, over the real device, wrapper and ladders. A
/// model is a list of operations on one row of numbers; what is counted are launches, not time.
///
/// Source: the mini_vllm of the course "vLLM Mastery", phase 05 (GraphRunner, PiecewiseGraphRunner,
/// LaunchCounter, labs 01, 02 and 05). Differs in that replay is a real replay: nothing is
/// recomputed.
namespace mini_vllm {

/// values = values * scale + offset, as one kernel launch. An op that is not capturable stands for
/// attention: it has to run eagerly between graphs.
struct Op {
  float scale = 1;
  float offset = 0;
  bool is_capturable = true;
};

using Values = std::vector<float>;

/// A device with one persistent buffer, where all ops work in place.
class Machine {
 public:
  static constexpr int32_t kMaxValues = 1024;

  Machine();

  /// Launches so far: eager kernels, and one for each graph however many kernels it holds.
  [[nodiscard]] uint64_t launches() const { return stream_->counters().submissions(); }

  void launch(const Op& op, int32_t count);
  void write(std::span<const float> values);
  [[nodiscard]] Values read(int32_t count);

  [[nodiscard]] reprise::device::Device& device() { return *device_; }
  [[nodiscard]] reprise::device::Stream& stream() { return *stream_; }
  /// The buffer as graphs see it.
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

/// Every op is one launch.
Values run_eager(Machine& machine, std::span<const Op> ops, const Values& x);

/// One graph per input shape: the first call of a shape captures, every call replays. The input is
/// copied into the static buffer first, because a graph reads addresses, not arguments.
class GraphRunner {
 public:
  /// `machine` must outlive the runner.
  GraphRunner(Machine& machine, std::vector<Op> ops);

  Values operator()(const Values& x);
  /// Replays a known shape without copying an input: what a caller gets who forgets the copy.
  Values replay_what_lies_there(int32_t count);

  [[nodiscard]] size_t num_captured() const { return wrapper_.counters().captures; }

 private:
  Machine* machine_;
  std::vector<Op> ops_;
  reprise::cudagraph::CapturePermission permission_;
  reprise::cudagraph::CudagraphWrapper wrapper_;
};

/// Like GraphRunner, but the capture ends before each op that is not capturable and begins again
/// after it: one graph per run of capturable ops, and the others launched between them.
class PiecewiseGraphRunner {
 public:
  PiecewiseGraphRunner(Machine& machine, std::vector<Op> ops);

  Values operator()(const Values& x);

  /// Graphs of one shape; 0 before its first call.
  [[nodiscard]] size_t num_graphs(int32_t count) const;

 private:
  Machine* machine_;
  std::vector<Op> ops_;
  reprise::cudagraph::CapturePermission permission_;
  reprise::cudagraph::CudagraphWrapper wrapper_;
};

/// Maximal runs of ops that are all capturable, or all not: {first op, number of ops}.
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

/// Costs of a program of `num_ops` kernels, in launches. The first call of a shape pays
/// `capture_cost` (which includes its own work), later ones are one launch.
struct LaunchArithmetic {
  int64_t num_ops = 1;
  int64_t capture_cost = 1;

  [[nodiscard]] int64_t eager(int64_t calls) const { return calls * num_ops; }
  [[nodiscard]] int64_t replayed(int64_t calls) const {
    return calls == 0 ? 0 : capture_cost + (calls - 1);
  }
  /// The first number of calls after which graphs have cost less; nothing if that never happens.
  [[nodiscard]] std::optional<int64_t> break_even_calls() const;
  /// How many times fewer launches; tends to num_ops.
  [[nodiscard]] double gain(int64_t calls) const {
    return static_cast<double>(eager(calls)) / static_cast<double>(replayed(calls));
  }
};

/// What fewer launches make of the time when only `launch_share` of it was launching (Amdahl).
[[nodiscard]] double speedup(double launch_share, int64_t num_ops);

}  // namespace mini_vllm
